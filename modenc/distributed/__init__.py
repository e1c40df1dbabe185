"""Work on the machines of a Ray cluster; needs the extra ``ray``.

Ray schedules, retries and places. What is to be done, and what depends on what, the callers say.
"""

from modenc.extras import require_extra

require_extra("ray", "ray")

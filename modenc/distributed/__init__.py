"""Work on the machines of a Ray cluster; needs the extra ``ray``.

Ray schedules, retries and places. What is to be done, and what depends on what, the callers say.
"""

from modenc.extras import require_extra

# Ray alone lacks what its Data cannot be imported without.
require_extra("ray", "ray", "pandas", "pyarrow")

"""``python -m modenc.cli``."""

from modenc.cli.main import main

raise SystemExit(main())

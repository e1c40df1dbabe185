"""From files, public data sets and gettext catalogues to clean texts and pairs."""

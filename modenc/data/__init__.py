"""Reading texts and pairs from files, public data sets and gettext catalogs, and filtering them."""

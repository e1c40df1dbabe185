"""Reading texts and pairs from files, public data sets and gettext catalogues, and filtering them."""

"""Checks of a hub's files, which come from third parties: none may run code, hang, or fill the memory.

Files of others are checked in six more places: bases in :mod:`modenc.base_model.trust`, a hub's own folder in
:mod:`modenc.hub.verify`, the values in ``hub.json`` in :func:`modenc.hub.layout.info_issues`, what is
downloaded before it is fetched in :mod:`modenc.hub.remote`, the fit of modules to the body's layers in
:func:`modenc.composition.body.check_fit`, and data files in :mod:`modenc.data.limits`.
"""

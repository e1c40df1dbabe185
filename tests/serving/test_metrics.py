"""Counters of several servers on one page."""

from array import array

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from prometheus_client.parser import text_string_to_metric_families

from modenc.serving.metrics import Metrics, page_of_replicas
from modenc.texts import TaggedText, Tokens


def test_counters_of_replicas_share_a_page_by_label():
    collected = {}
    for name, texts in (("one", 2), ("two", 3)):
        metrics = Metrics()
        cut = TaggedText("a", "kk")
        cut.tokens = Tokens("", 9, "", array("i", range(9)), cut=True)
        metrics.count([cut] * texts)
        collected[name] = metrics.collect()
    page = page_of_replicas(collected).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert page.count("# TYPE modenc_texts_total ") == 1
    found = {tuple(one.labels.values()): one.value for one in families["modenc_texts"].samples}
    assert found == {("kk", "one"): 2, ("kk", "two"): 3}
    assert [one.value for one in families["modenc_texts_cut"].samples] == [2, 3]
    alone = {family.name for family in text_string_to_metric_families(metrics.page().decode())}
    assert families.keys() == alone

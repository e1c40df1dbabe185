"""OpenVINO in 8-bit integers: what is an integer in it, and the texts that its ranges come from."""

import subprocess
import sys

import numpy as np
import pytest

import modenc


@pytest.fixture(scope="module")
def operations(tiny_hub, tmp_path_factory):
    pytest.importorskip("nncf", reason="not installed")
    openvino = pytest.importorskip("openvino", reason="not installed")
    output = tmp_path_factory.mktemp("exported") / "model"
    folder = modenc.export(tiny_hub, "en", output, to="openvino", int8=True, align=False)
    return openvino.Core().read_model(folder / "openvino" / "openvino_model.xml").get_ops()


@pytest.mark.slow
def test_second_products_stay_in_floating_point(operations):
    products = [op for op in operations if op.get_type_name() == "MatMul"]
    floating = {
        op.get_friendly_name()
        for op in products
        if not any(
            port.get_source_output().get_node().get_type_name() == "FakeQuantize" for port in op.inputs()
        )
    }
    wanted = [name for op in products if ".output.dense" in (name := op.get_friendly_name())]
    assert floating == {name for name in wanted if "attention" not in name}
    assert len(floating) == 2


@pytest.mark.slow
def test_products_of_bytes_do_not_overflow_without_vnni(operations):
    weights = [_weight(op) for op in operations if op.get_type_name() == "MatMul"]
    integers = [weight for weight in weights if weight is not None and weight.dtype == np.int8]
    assert len(integers) == 2 * 5
    assert max(np.abs(weight.astype(int)).max() for weight in integers) == 64


def _weight(product):
    """The stored weight that a product is taken with, if any."""
    node = product.input(1).get_source_output().get_node()
    while node.get_type_name() in ("Multiply", "Subtract", "Convert"):
        node = node.input(0).get_source_output().get_node()
    return node.data if node.get_type_name() == "Constant" else None


@pytest.mark.slow
def test_nobody_is_told_of_its_use(tiny_hub, tmp_path):
    pytest.importorskip("nncf", reason="not installed")
    program = (
        "import sys, modenc; "
        f"modenc.export({str(tiny_hub.path)!r}, 'en', {str(tmp_path / 'en')!r}, to='openvino', int8=True); "
        "print('openvino' in sys.modules, sys.modules['openvino_telemetry'])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "True None\n"

"""The tables of the paper: every row can be trained, and tables that share a run agree about it."""

from bipointnet.config import CHOICES, from_mapping
from bipointnet.reproduce.tables import TABLES, Row

ROWS = [(name, row) for name, table in TABLES.items() for row in table.rows]


def test_every_row_is_a_configuration():
    for _, row in ROWS:
        config = from_mapping(row.name, row.options)
        assert config.recipe == ("paper" if row.name.endswith("-paper") else "tuned")


def test_rows_of_one_name_are_one_run():
    runs: dict[str, Row] = {}
    for _, row in ROWS:
        assert runs.setdefault(row.name, row).options == row.options
    configs = [from_mapping(row.name, row.options) for row in runs.values()]
    assert len(set(configs)) == len(configs), "two names for one run"


def test_rows_of_the_paper_have_all_its_figures():
    for _, row in ROWS:
        assert set(row.paper) == (set(row.figures) if row.name.endswith("-paper") else set())


def test_the_tables_are_complete():
    methods = {(row.options["method"], row.options["pool"]) for row in TABLES["methods"].rows}
    one_bit = [method for method in CHOICES["method"] if method != "fp"]
    assert methods == {
        *((method, pool) for method in one_bit for pool in ("max", "ema-avg", "ema-max-points")),
        ("fp", "max"),
        ("fp", "avg"),
    }
    backbones = {(row.options["model"], row.options["method"]) for row in TABLES["backbones"].rows}
    published = [model for model in CHOICES["model"] if not model.startswith("local-")]
    assert backbones == {
        *((model, method) for model in published for method in ("fp", "xnor", "lsr")),
        *((model, method) for model in CHOICES["model"] for method in ("fp", "lsr")),
    }
    assert len(TABLES["deploy"].rows) == 6
    assert len(TABLES["ablation"].rows) == 24

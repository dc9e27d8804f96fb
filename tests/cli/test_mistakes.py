"""A user's mistake is one clear sentence and exit code 2, and leaves nothing behind."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import complaint

GOLDEN = Path(__file__).parents[1] / "golden"
MISTAKES = {
    "no such data": (["train", "nowhere"], ["nowhere", "shapes"]),
    "empty folder": (["train", "empty"], ["empty", "layout"]),
    "a class without files": (["train", "hollow"], ["hollow/b", "suffixes"]),
    "unknown method": (["train", "shapes", "--method", "lrs"], ["lrs", "did you mean 'lsr'"]),
    "a method in capitals": (["train", "shapes", "--method", "LSR"], ["LSR", "did you mean 'lsr'"]),
    "unknown option": (["train", "shapes", "--epoch", "3"], ["--epoch", "--epochs", "train --help"]),
    "an option that is not a number": (["train", "shapes", "--epochs", "many"], ["--epochs", "integer"]),
    "unknown command": (["trian"], ["No such command 'trian'"]),
    "missing argument": (["eval", "nowhere"], ["Missing argument", "DATA"]),
    "unknown option in the TOML": (["train", "shapes", "--config", "typo.toml"], ["typo.toml", "epoch", "'epochs'"]),
    "wrong type in the TOML": (["train", "shapes", "--config", "type.toml"], ["type.toml", "'many'", "int"]),
    "not a TOML": (["train", "shapes", "--config", "broken.toml"], ["broken.toml", "TOML"]),
    "no such TOML": (["train", "shapes", "--config", "no.toml"], ["no.toml"]),
    "zero epochs": (["train", "shapes", "--epochs", "0"], ["epochs is 0", "at least 1"]),
    "binary first layer of a float network": (
        ["train", "shapes", "--method", "fp", "--binary-first"],
        ["--method lsr"],
    ),
    "no such init": (["train", "pair", "--points", "4", "--init", "nowhere", "-o", "x"], ["nowhere", "does not exist"]),
    "init from a packed model": (["train", "pair", "--init", GOLDEN / "shapes.bpn"], ["packed model", "--init"]),
    "init of several networks": (
        ["train", "pair", "--task", "part", "--category", "each", "--init", "nowhere"],
        ["--init is for one network"],
    ),
    "fewer points than asked": (["train", "pair", "--points", "9"], ["pair", "0.xyz", "8 points", "--points 8"]),
    "NaN points": (["train", "rotten", "--points", "2"], ["bad.xyz", "no point with finite coordinates", "2"]),
    "no such run": (["eval", "nowhere", "shapes"], ["nowhere", "does not exist", "run folder"]),
    "a folder that is no run": (["eval", "empty", "shapes"], ["empty", "last.safetensors", "bipointnet train"]),
    "no such data to evaluate on": (["eval", GOLDEN / "shapes.bpn", "nowhere"], ["nowhere", "no such folder"]),
    "a text as a model": (["predict", "nan.xyz", "-m", "typo.toml"], ["typo.toml", "neither a packed model nor a"]),
    "an unknown model": (
        ["predict", "nan.xyz", "-m", "pointnet-vanila-shapes"],
        ["pointnet-vanila-shapes", "does not exist", "bipointnet models", "did you mean 'pointnet-vanilla-shapes'"],
    ),
    "a file that is not there to view": (["view", "none.ply"], ["none.ply", "no such file"]),
    "an unknown model for a page": (
        ["web", "-o", "site", "--model", "local-tny-modelnet40"],
        ["local-tiny-modelnet40"],
    ),
    "two models of one name for a page": (
        ["web", "-o", "site", "--model", GOLDEN / "shapes.bpn", "--model", GOLDEN / "shapes.bpn"],
        ["shapes.bpn", "different names"],
    ),
    "a page in a file": (["web", "-o", "typo.toml"], ["typo.toml", "a folder"]),
    "an unknown model to inspect": (["inspect", "pointnet-vanila-shapes"], ["did you mean 'pointnet-vanilla-shapes'"]),
    "the card of an unknown model": (
        ["models", "modelnet40"],
        ["modelnet40: not a shipped model", "bipointnet models"],
    ),
    "no axis": (["predict", "nan.xyz", "--up", "w"], ["--up is 'w'", "x, y or z"]),
    "an axis for a model that records none": (
        ["predict", "nan.xyz", "-m", GOLDEN / "shapes.bpn", "--up", "y"],
        ["shapes.bpn", "does not record", "--up y", "leave it out"],
    ),
    "no colors for a network that reads them": (
        ["segment", "pair/a/0.xyz", "-m", "pointnet2-s3dis"],
        ["0.xyz", "no colors", "red, green", "trained without them"],
    ),
    "a damaged packed model": (["predict", "nan.xyz", "-m", "hollow.bpn"], ["hollow.bpn", "damaged", "export"]),
    "no such cloud": (["predict", "gone.xyz", "-m", GOLDEN / "shapes.bpn"], ["gone.xyz"]),
    "predict with a network that labels points": (
        ["predict", "nan.xyz", "-m", GOLDEN / "shapes-parts.bpn"],
        ["labels points", "bipointnet segment"],
    ),
    "segment with a network that classifies": (
        ["segment", "nan.xyz", "-m", GOLDEN / "shapes.bpn"],
        ["classifies whole clouds", "--task part or semantic", "bipointnet predict"],
    ),
    "export of nothing": (["export", "nowhere", "-o", "m.bpn"], ["nowhere", "does not exist"]),
    "export of a packed model": (["export", "hollow.bpn", "-o", "m.bpn"], ["hollow.bpn", "packed model already"]),
    "export into a folder": (["export", "nowhere", "-o", "empty"], ["empty", "a folder"]),
    "export with an unknown type": (["export", "nowhere", "-o", "m.bpn", "--last", "f8"], ["--last is 'f8'", "f16"]),
    "export over the run": (
        ["export", "pointnet2", "-o", "pointnet2/last.safetensors"],
        ["last.safetensors: an input"],
    ),
    "a C array over the model": (["export", "hollow.h", "--c-array", "-o", "hollow.h"], ["hollow.h: an input file"]),
    "a page over another page": (["web", "-o", "own"], ["own/index.html: is there already", "another folder"]),
    "a C array of a run": (
        ["export", "pointnet2", "--c-array", "-o", "m.h"],
        ["pointnet2: a run", "bipointnet export"],
    ),
    "a C array of nothing": (["export", "nowhere", "--c-array", "-o", "m.h"], ["nowhere", "does not exist"]),
    "a C array of an unknown model": (
        ["export", "pointnet-vanila-shapes", "--c-array", "-o", "m.h"],
        ["pointnet-vanila-shapes", "did you mean 'pointnet-vanilla-shapes'"],
    ),
    "a C array of a damaged model": (["export", "hollow.bpn", "--c-array", "-o", "m.h"], ["hollow.bpn", "damaged"]),
    "a C array in a packed model": (
        ["export", GOLDEN / "shapes.bpn", "--c-array", "-o", "m.bpn"],
        ["m.bpn", "ends in .h", "m.h"],
    ),
    "a C array in a folder": (["export", GOLDEN / "shapes.bpn", "--c-array", "-o", "empty"], ["empty", "a folder"]),
    "a C array with another type": (
        ["export", GOLDEN / "shapes.bpn", "--c-array", "-o", "m.h", "--last", "f32"],
        ["--last with --c-array", "leave it out"],
    ),
    "skipped files of built-in data": (["train", "shapes", "--skip-bad"], ["shapes: built in", "--skip-bad"]),
    "all files of built-in data": (
        ["eval", GOLDEN / "shapes.bpn", "shapes", "--all"],
        ["shapes: has a test split of its own", "--all is for files of your own"],
    ),
    "a picture of corruptions": (
        ["eval", GOLDEN / "shapes.bpn", "shapes", "--corruptions", "--picture", "a.png"],
        ["not trained on labeled scans", "--picture"],
    ),
    "the most probable classes of a job": (
        ["predict", "nan.xyz", "-m", GOLDEN / "shapes.bpn", "-o", "rows", "--top", "3"],
        ["--top is 3 with -o", "leave it out"],
    ),
    "each fold of rooms": (
        ["train", "rooms", "--task", "semantic", "--fold", "each"],
        ["rooms: has no folds, unlike S3DIS; found fold 'each'"],
    ),
    "channels of published scans, for each fold": (
        ["train", "areas", "--task", "semantic", "--fold", "each", "--channels", "rgb"],
        ["areas: not labeled scans of your own", "--channels"],
    ),
    "inspect of a text": (["inspect", "typo.toml"], ["typo.toml", "neither a packed model nor a checkpoint"]),
    "verify of a text": (["verify", "typo.toml"], ["typo.toml", "neither a packed model nor a checkpoint"]),
    "verify of a run": (["verify", "pointnet2"], ["pointnet2: a run", "bipointnet export pointnet2 -o FILE"]),
    "bench of a run": (["bench", "pointnet2"], ["pointnet2: a run", "bipointnet export pointnet2 -o FILE"]),
    "verify of nothing": (["verify", "nowhere"], ["nowhere"]),
    "verify against a packed model": (
        ["verify", GOLDEN / "shapes.bpn", "--run", GOLDEN / "shapes.bpn"],
        ["a packed model", "expected the run folder"],
    ),
    "bench of nothing": (["bench", "nowhere"], ["nowhere"]),
    "bench of no points": (["bench", "hollow.bpn", "--points", "0"], ["points is 0"]),
    "bench of endless points": (["bench", "hollow.bpn", "--points", f"{10**18}"], ["points is 1000000", "from 1 to"]),
    "training on endless points": (["train", "shapes", "--points", f"{10**18}"], ["points is 1000000", "at most 1048"]),
    "bench of several sizes": (["bench", "hollow.bpn", "--points", "32,64"], ["'32,64'", "one integer", "add --sweep"]),
    "bench of a size in words": (["bench", "hollow.bpn", "--points", "many"], ["--points is 'many'", "integers"]),
    "picture of one size": (["bench", "hollow.bpn", "--picture", "a.png"], ["--picture is 'a.png'", "add --sweep"]),
    "clouds of one size": (["bench", "hollow.bpn", "--clouds", "0"], ["--clouds is '0'", "add --sweep"]),
    "sweep over words": (["bench", "hollow.bpn", "--sweep", "--points", "32,many"], ["'32,many'", "such as 32,1024"]),
    "sweep over no points": (["bench", "hollow.bpn", "--sweep", "--points", "0,32"], ["points is 0", "from 1 to"]),
    "sweep without rounds": (["bench", "hollow.bpn", "--sweep", "--rounds", "0"], ["rounds is 0", "at least 1"]),
    "sweep with no threads": (["bench", "hollow.bpn", "--sweep", "--threads", "0"], ["threads is 0", "from 1 to"]),
    "sweep into a folder": (["bench", "hollow.bpn", "--sweep", "-o", "empty"], ["'empty'", "ends in .json"]),
    "sweep drawn as JPEG": (["bench", "hollow.bpn", "--sweep", "--picture", "a.jpg"], ["'a.jpg'", "ends in .png"]),
    "sweep of a damaged model": (["bench", "hollow.bpn", "--sweep", "-o", "a.json"], ["hollow.bpn", "damaged"]),
    "demo into a file": (["demo", "-o", "nan.xyz"], ["nan.xyz", "a file", "-o"]),
}


@pytest.fixture(scope="module")
def junk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that can be wrong."""
    root = tmp_path_factory.mktemp("junk")
    (root / "empty").mkdir()
    (root / "hollow" / "b").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("hollow/a", "pair/a", "pair/b", "rotten/a", "rotten/b"):
        (root / name).mkdir(parents=True)
        for i in range(3):
            np.savetxt(root / name / f"{i}.xyz", rng.normal(size=(8, 3)))
    (root / "rotten" / "a" / "bad.xyz").write_text("0 inf 0\n1 nan 0\n")
    (root / "areas").mkdir()
    for area in (1, 2):
        np.save(root / "areas" / f"Area_{area}_office_1.npy", np.zeros((8, 7)))
    (root / "own").mkdir()
    (root / "own" / "index.html").write_text("<title>mine</title>")
    described = {
        "hollow.bpn": {"program": []},
        "hollow.h": {"program": []},
        "pointnet2/last.safetensors": {"config": {"model": "pointnet2"}},
    }
    for path, facts in described.items():
        header = json.dumps({"__metadata__": {"bipointnet": json.dumps({"format": 1, **facts})}}).encode()
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(len(header).to_bytes(8, "little") + header)
    (root / "nan.xyz").write_text("0 0 nan\n")
    (root / "typo.toml").write_text("epoch = 3\n")
    (root / "type.toml").write_text('epochs = "many"\n')
    (root / "broken.toml").write_text("epochs 3\n")
    return root


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(junk, mistake):
    arguments, words = MISTAKES[mistake]
    before = sorted(junk.rglob("*"))
    sentence = complaint(*arguments, cwd=junk)
    assert [word for word in words if word not in sentence] == [], sentence
    assert sorted(junk.rglob("*")) == before

"""Where a result comes from: the commit of this project only, and never an error."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from bipointnet import __version__
from bipointnet.training.provenance import commit, provenance


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def make_repository(folder: Path, name: str = "bipointnet") -> str:
    (folder / "src" / "bipointnet").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Start")
    return git(folder, "rev-parse", "HEAD")


def test_a_source_tree_names_its_commit(tmp_path, monkeypatch):
    head = make_repository(tmp_path / "tree")
    assert commit(tmp_path / "tree" / "src" / "bipointnet") == head
    # As in a git hook of another repository.
    make_repository(tmp_path / "other", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert commit(tmp_path / "tree" / "src" / "bipointnet") == head


def test_without_git_there_is_no_commit_and_no_error(tmp_path, monkeypatch):
    make_repository(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert commit(tmp_path / "src" / "bipointnet") is None
    found = provenance(torch.device("cpu"))
    assert found["commit"] is None
    assert found["version"] == __version__
    assert found["torch"] == torch.__version__


def test_an_environment_inside_another_repository_does_not_name_its_commit(tmp_path):
    make_repository(tmp_path, "my-project")
    package = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "bipointnet"
    package.mkdir(parents=True)
    assert commit(package) is None
    assert commit(tmp_path / "src" / "bipointnet") is None, "a folder of that name in a project of another name"


def test_a_copy_inside_another_repository_does_not_name_its_commit(tmp_path):
    make_repository(tmp_path, "my-project")
    make_repository(tmp_path / "vendor" / "bipointnet")
    shutil.rmtree(tmp_path / "vendor" / "bipointnet" / ".git")
    assert commit(tmp_path / "vendor" / "bipointnet" / "src" / "bipointnet") is None


@pytest.mark.parametrize("content", ["", "[project", "[project]", "project = 3", "\xff"])
def test_a_damaged_pyproject_is_no_error(tmp_path, content):
    make_repository(tmp_path)
    (tmp_path / "pyproject.toml").write_bytes(content.encode("latin-1"))
    assert commit(tmp_path / "src" / "bipointnet") is None


def test_a_repository_without_commits_is_no_error(tmp_path):
    make_repository(tmp_path)
    shutil.rmtree(tmp_path / ".git")
    git(tmp_path, "init", "-q")
    assert commit(tmp_path / "src" / "bipointnet") is None

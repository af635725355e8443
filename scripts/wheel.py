#!/usr/bin/env python3
"""Builds the Python wheel: the program, a small module and fixtures for pytest.

    cargo build --release -p homeostat-cli
    python scripts/wheel.py --binary target/release/homeostat --output target/wheel
    pip install target/wheel/homeostat-*.whl

Prints the path of the wheel. It needs nothing but Python: a wheel is an archive of files and a list of them.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A fixed time: the same files give the same archive.
TIME = (2020, 1, 1, 0, 0, 0)


def version() -> str:
    """Returns the version of the workspace."""
    section = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    return re.search(r'^version = "([^"]+)"', section, re.MULTILINE).group(1)


def write(archive: zipfile.ZipFile, records: list, name: str, content: bytes, mode: int = 0o644) -> None:
    """Adds a file and its line in the list."""
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o100000 | mode) << 16
    archive.writestr(info, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(content)}")


def build(binary: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    """Writes the wheel into the folder, and returns its path."""
    number = version()
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    tag, information = f"py3-none-{platform}", f"homeostat-{number}.dist-info"
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"homeostat-{number}-{tag}.whl"
    records = []
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((ROOT / "python" / "homeostat").glob("*.py")):
            write(archive, records, f"homeostat/{source.name}", source.read_bytes())
        write(archive, records, "homeostat/bin/homeostat", binary.read_bytes(), 0o755)
        write(archive, records, f"{information}/METADATA", (
            f"Metadata-Version: 2.1\nName: homeostat\nVersion: {number}\nRequires-Python: >=3.9\n"
            "Summary: A Kubernetes control plane in one process, with fixtures for pytest\n"
            "Classifier: Framework :: Pytest\n").encode())
        write(archive, records, f"{information}/WHEEL", (
            f"Wheel-Version: 1.0\nGenerator: homeostat\nRoot-Is-Purelib: false\nTag: {tag}\n").encode())
        write(archive, records, f"{information}/entry_points.txt", (
            b"[console_scripts]\nhomeostat = homeostat:main\n\n[pytest11]\nhomeostat = homeostat.pytest_plugin\n"))
        name = f"{information}/RECORD"
        records.append(f"{name},,")
        archive.writestr(zipfile.ZipInfo(name, TIME), "\n".join(records) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target" / "release" / "homeostat")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "target" / "wheel")
    arguments = parser.parse_args()
    print(build(arguments.binary, arguments.output))


if __name__ == "__main__":
    main()

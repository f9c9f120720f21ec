"""The catalogue of profiles: the built-in ones, and those in the files that a process is given."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from scorer.ranking.profiles.profile import Profile, ProfileError
from scorer.ranking.profiles.profile_file import parse_profile

DEFAULT = "windward"


@dataclass(frozen=True)
class Profiles:
    """The profiles of one process, by name. A bad file is an error, so that the former catalogue stays in force."""

    by_name: Mapping[str, Profile]
    default: str = DEFAULT
    digest: str = ""
    """Digest of the profile files and the default's name: equal digests mean equal profiles."""

    def choose(self, name: str = "", text: str = "") -> Profile:
        """Return the profile of that name, the default one for ""; ``text``: that of its file, if it is not here.

        Raises ProfileError naming it and the known ones.
        """
        if text:
            return parse_profile(text, name, f"profile {name}")
        name = name or self.default
        profile = self.by_name.get(name)
        if profile is None:
            known, own = ", ".join(sorted(self.by_name)), Path(name).stem
            how = f"; give the file of your own to every scorer (--profiles {own}.toml), and name it {own}"
            raise ProfileError(f"profile: no profile {name!r}; there are {known}{how}")
        return profile


def load_profiles(paths: Iterable[Path | str] = (), default: str = DEFAULT) -> Profiles:
    """Return the built-in profiles and those of these files and directories (``*.toml``), named by their file.

    A file of a built-in profile's name replaces it. Raises ProfileError.
    """
    by_name, given = dict(built_in_profiles()), hashlib.sha256(default.encode())
    for file in profile_files(paths):
        by_name[file.stem] = read_profile(file)
        given.update(f"\n{file.stem}\n{file.read_text()}".encode())
    profiles = Profiles(by_name, default, given.hexdigest()[:12])
    profiles.choose()
    return profiles


def profile_files(paths: Iterable[Path | str]) -> list[Path]:
    """Return these files, and those of these directories (``*.toml``)."""
    found = [sorted(path.glob("*.toml")) if path.is_dir() else [path] for path in map(Path, paths)]
    return [file for files in found for file in files]


def read_profile(path: Path) -> Profile:
    """Return the profile of one file.

    Raises ProfileError.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read: {getattr(error, 'strerror', '') or error}") from None
    return parse_profile(text, path.stem, str(path))


def built_in_profiles() -> Mapping[str, Profile]:
    """Return the profiles in the folder ``profiles`` beside this module, by name."""
    found = {}
    for file in sorted(resources.files("scorer.ranking").joinpath("profiles").iterdir(), key=lambda each: each.name):
        if file.name.endswith(".toml"):
            name = file.name.removesuffix(".toml")
            found[name] = parse_profile(file.read_text(), name, f"profile {file.name}")
    return found

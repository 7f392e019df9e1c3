"""Does nothing."""

from . import desk


def main() -> None:
    desk.diagnose("unknown")
    desk.mitigated()


if __name__ == "__main__":
    main()

"""Commands taken apart without a shell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sregym.gateway.mcp.words import LONGEST, LONGEST_WORD, NotOneCommand, split


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("kubectl get pods -n shop", ["kubectl", "get", "pods", "-n", "shop"]),
        ('kubectl patch svc a -p \'{"spec": {"a|b": ">$HOME"}}\'', ["-p", '{"spec": {"a|b": ">$HOME"}}']),
        ('kubectl get -o jsonpath="{.items[?(@.a==\\"b\\")].c}"', ['jsonpath={.items[?(@.a=="b")].c}']),
        ("kubectl get -o jsonpath={.items[*].metadata.name}", ["jsonpath={.items[*].metadata.name}"]),
        ('kubectl label pod a note="two words"', ["note=two words"]),
        ("kubectl get \\\n  pods \\\n  -A", ["kubectl", "get", "pods", "-A"]),
        ("kubectl exec a -- sh -c 'ps | grep x; echo $PATH > /dev/null'", ["ps | grep x; echo $PATH > /dev/null"]),
        ("kubectl patch a -p '{\n  \"b\": 1\n}'", ['{\n  "b": 1\n}']),
        ("kubectl get pods\t-l  a=b", ["kubectl", "get", "pods", "-l", "a=b"]),
        ('kubectl annotate pod a x=""', ["x="]),
        ("kubectl annotate pod a 'x=$5'", ["x=$5"]),
        ("kubectl annotate pod a x=5$", ["x=5$"]),
        ("kubectl patch a -p 'a\\\nb'", ["a\\\nb"]),
        ("kubectl get po\\\nds", ["kubectl", "get", "pods"]),
    ],
)
def test_quotes_mean_what_they_mean_to_a_shell(text: str, argv: list[str]) -> None:
    assert split(text).argv[-len(argv) :] == tuple(argv)


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=20), max_size=6))
def test_what_shlex_quotes_is_read_back(words: list[str]) -> None:
    text = " ".join(["kubectl", *map(shlex.quote, words), "end"])
    assert split(text).argv == ("kubectl", *words, "end")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kubectl get pods | grep a", "pipe"),
        ("kubectl get pods|grep a", "pipe"),
        ("kubectl get pods > /tmp/x", "redirection"),
        ("kubectl get pods 2>&1", "redirection"),
        ("kubectl apply -f - < file", "redirection"),
        ("kubectl get pods; rm -rf /", "one command at a time"),
        ("kubectl get pods && kubectl get svc", "one command at a time"),
        ("kubectl get pods &", "one command at a time"),
        ("kubectl get pods\nkubectl get svc", "second line"),
        ("kubectl get pods $(whoami)", "no shell"),
        ("kubectl get pods `whoami`", "substitution"),
        ('kubectl get pods "$HOME"', "variables"),
        ("kubectl get pods ${HOME}", "variables"),
        ('kubectl get pods "a`id`"', "substitution"),
        ("kubectl get pods # all of them", "comments"),
        ("kubectl get 'pods", "not closed"),
        ('kubectl get "pods', "not closed"),
        ("kubectl get pods \\", "backslash"),
        ("kubectl get \x00", "characters"),
        ("kubectl get \ud83d", "characters"),
        ("kubectl get " + "a" * LONGEST, "longer"),
        ("kubectl get " + "a" * (LONGEST_WORD + 1), "-f - <<EOF"),
        ("kubectl apply -f - <<EOF\na: b\n", "does not end"),
        ("kubectl apply -f - <<EOF\na: b\nEOF\nrm -rf /", "more behind"),
    ],
)
def test_what_needs_a_shell_is_refused_with_advice(text: str, said: str) -> None:
    with pytest.raises(NotOneCommand, match=said):
        split(text)


@pytest.mark.parametrize("marker", ["<<EOF", "<< EOF", "<<'EOF'", '<<"EOF"', "<<-EOF"])
def test_a_document_behind_the_command_is_standard_input(marker: str) -> None:
    indent = "\t" if "-" in marker else ""
    words = split(f"kubectl apply -n shop -f - {marker}\n{indent}a: |\n{indent}  $x > `y` | z\n{indent}EOF\n")
    assert words.argv == ("kubectl", "apply", "-n", "shop", "-f", "-")
    assert words.stdin == "a: |\n  $x > `y` | z\n"


def test_a_document_may_follow_a_command_of_several_lines() -> None:
    words = split("kubectl apply \\\n  -f - <<YAML\na: b\nYAML")
    assert words.argv == ("kubectl", "apply", "-f", "-")
    assert words.stdin == "a: b\n"

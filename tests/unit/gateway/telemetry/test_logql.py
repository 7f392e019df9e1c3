"""The part of LogQL that is served, and what it becomes for VictoriaLogs."""

import pytest

from sregym.gateway.telemetry.logql import BadQuery, LineFilter, Matcher, parse_log_query, parse_selector
from sregym.gateway.telemetry.logsql import is_content, log_query, selection


def test_a_query_is_understood_in_all_its_parts() -> None:
    query = parse_log_query('{namespace="shop", pod=~`fr.*\\d`,} |= "er\\"ror" or `x` !~ "a|b" | json | level!="INFO"')
    assert query.selector == (
        Matcher(label="namespace", op="=", value="shop"),
        Matcher(label="pod", op="=~", value="fr.*\\d"),
    )
    assert query.lines == (LineFilter(op="|=", values=('er"ror', "x")), LineFilter(op="!~", values=("a|b",)))
    assert query.fields == (Matcher(label="level", op="!=", value="INFO"),)


@pytest.mark.parametrize(
    "text",
    [
        '{namespace="shop"}|="a"|~"b"!="c"!~"d"',
        '{ namespace = "shop" } |= "a" |~ "b" != "c" !~ "d"',
        '{namespace="shop"}\n  |= "a"\n  |~ "b"\n  != "c"\n  !~ "d"',
    ],
)
def test_space_does_not_matter(text: str) -> None:
    assert [one.op for one in parse_log_query(text).lines] == ["|=", "|~", "!=", "!~"]


BAD = [
    ("", "selector in braces"),
    ("error", "selector in braces"),
    ('rate({namespace="shop"}[5m])', "count them"),
    ("{}", "at least one label"),
    ('{namespace=""}', "at least one label"),
    ('{namespace=~".*"}', "at least one label"),
    ('{namespace!="shop"}', "at least one label"),
    ('{namespace="shop"', "is expected"),
    ('{namespace="shop" pod="x"}', "is expected"),
    ("{namespace=shop}", "double quotes"),
    ('{namespace>"shop"}', "one of ="),
    ('{"namespace"="shop"}', "label's name"),
    ('{namespace="shop}', "not closed"),
    ("{namespace=`shop}", "not closed"),
    ('{namespace="\\d"}', "backticks"),
    ('{namespace="\\ud800"}', "backticks"),
    ('{namespace="shop"} error', "a filter is expected"),
    ('{namespace="shop"} |= error', "double quotes"),
    ('{namespace="shop"} | line_format "{{.x}}"', "not served"),
    ('{namespace="shop"} | pattern "<_>"', "not served"),
    ('{namespace="shop"} | level > 5', "not served"),
    ('{namespace="shop"} | json msg="m"', "not served"),
    ('{namespace="shop"} [5m]', "a filter is expected"),
    ('{namespace="shop"} |', "not served"),
    ('{namespace="' + "x" * 5000 + '"}', "longer"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[text[:30] or "empty" for text, _ in BAD])
def test_what_is_not_served_is_said_so(text: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said):
        parse_log_query(text)


def test_a_selector_alone_has_no_filters() -> None:
    assert parse_selector('{pod="a"}') == (Matcher(label="pod", op="=", value="a"),)
    with pytest.raises(BadQuery, match="only a selector"):
        parse_selector('{pod="a"} |= "b"')


def test_indexed_labels_become_a_stream_filter_and_others_filters_on_fields() -> None:
    chosen = selection(parse_selector('{namespace="shop", pod!~"x.*", app=~"a|b", job!="j"}'))
    assert chosen == (
        '{"kubernetes.pod_namespace"="shop", "kubernetes.pod_name"!~"x.*"} ("app":~"^(?:a|b)$") !("job":="j")'
    )
    assert selection(()) == "*"


def test_a_line_filter_looks_at_plain_and_at_structured_lines() -> None:
    query = parse_log_query('{namespace="shop"} |= "a\\"b" !~ `c|d` | level="ERROR"')
    text = log_query(query, content=["status", "level"], limit=7, newest_first=True)
    assert text == (
        '{"kubernetes.pod_namespace"="shop"} | filter ("level":="ERROR")'
        ' | copy _msg as msg | pack_json fields (msg, "level", "status") as _line'
        ' | filter (_msg:*"a\\"b"* or _line:*"a\\"b"*) | filter !(_msg:~"c|d" or _line:~"c|d")'
        " | sort by (_time desc) | limit 7"
    )
    plain = log_query(query, content=[], limit=7, newest_first=False)
    assert "pack_json" not in plain
    assert plain.endswith('| filter !(_msg:~"c|d") | sort by (_time) | limit 7')


def test_pipes_cannot_be_smuggled_in() -> None:
    query = parse_log_query('{namespace="a\\" | delete x | \\""} |= `" | limit 0 | "`')
    text = log_query(query, content=['x" | y'], limit=1, newest_first=True)
    assert '"a\\" | delete x | \\""' in text
    assert '*"\\" | limit 0 | \\""*' in text
    assert '"x\\" | y"' in text


def test_which_fields_belong_to_the_line() -> None:
    fields = ["_msg", "_time", "_stream", "_stream_id", "kubernetes.pod_name", "level"]
    assert [name for name in fields if is_content(name)] == ["level"]

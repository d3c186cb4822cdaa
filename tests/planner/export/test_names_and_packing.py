"""Names that everything accepts, files in which users' words do nothing, and replicas in their boxes."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from functools import cache

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.checker.packing import boxes_needed, stand_apart
from planner.export.export import README, export_plan, target_names
from planner.export.folder import OURS
from planner.export.hosted import Settings
from planner.export.manifests import documents
from planner.export.names import label_value, unique
from planner.export.packing import Wanted, packed, skews
from planner.plan.plan import Plan
from tests.support.manifest_checks import assert_valid, objects
from tests.support.report_plans import HOSTILE
from tests.support.shared_plans import fleet_plan

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NASTY = [
    *(
        "$(reboot)",
        "${HOME}",
        "`id`",
        'a"b',
        "a'b",
        "a\nb: c",
        "---\nkind: Secret",
        "# x",
        "ключ",
        "名前",
        "",
        "-",
        "--x",
    ),
    *("7", "true", "null", "1e3", "0x1F", "~", "!!python/object", "{{ x }}", "a-spot", "a", "A", "a b", "\u202e"),
    *HOSTILE,
]
ANY_NAME = st.one_of(st.sampled_from(NASTY), st.text(max_size=80))


def test_a_workload_does_not_have_the_name_of_anothers_groups() -> None:
    assert unique(["chat", "chat-groups", "chat-spot-groups"]) == ["chat", "chat-groups-2", "chat-spot-groups-2"]
    assert unique(["chat-groups", "chat"]) == ["chat-groups", "chat-2"]


@given(st.lists(ANY_NAME, max_size=8))
def test_names_are_labels_and_unique_with_their_spot_twins(names: list[str]) -> None:
    made = unique(names)
    assert len(made) == len(names)
    for name in made:
        assert LABEL.fullmatch(name) and len(name) + len("-spot") <= 63
    assert len({n for name in made for n in (name, f"{name}-spot")}) == 2 * len(made)
    assert unique(names) == made


@given(ANY_NAME)
def test_label_values_are_valid_and_those_of_clouds_stay(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", label_value(text))
    assert len(label_value(text)) <= 63
    for cloud in ("g6e.xlarge", "a3-highgpu-8g", "us-east-1", "gpu_8x_h100_sxm5"):
        assert label_value(cloud) == cloud


@given(st.dictionaries(ANY_NAME, st.one_of(ANY_NAME, st.lists(ANY_NAME), st.integers(), st.booleans()), max_size=4))
def test_yaml_gives_back_every_string_as_a_string(data: dict[str, object]) -> None:
    text = documents("a header", data)
    assert yaml.safe_load(text) == data
    assert text.isascii()


WORKLOAD = (
    "  - {{name: {}, models: [llama-3.1-8b], forecast: {{requests_per_day: 90k}}, adapter: 50MB, tenancy: shared}}\n"
)


@cache
def small() -> Plan:
    text = "workloads:\n" + WORKLOAD.format("one") + WORKLOAD.format("two")
    text += "menu: {gpus: [l4], quantizations: [fp8], max_deployments: 1, apis: []}\nbaseline: openai/gpt-4o-mini\n"
    plan = fleet_plan(planner.case_from_text(text))
    assert len(plan.pools) == 1
    return plan


def renamed(plan: Plan, names: tuple[str, str], checkpoint: str) -> Plan:
    """The plan of the same workloads under other names: what a file would give, without planning again."""
    by_name = dict(zip([w.name for w in plan.case.workloads], names, strict=True))
    models = {k: m.model_copy(update={"checkpoint": checkpoint}) for k, m in plan.case.models.items()}
    case = plan.case.model_copy(
        update={
            "models": models,
            "workloads": tuple(w.model_copy(update={"name": by_name[w.name]}) for w in plan.case.workloads),
        }
    )
    pools = tuple(
        p.model_copy(update={"key": " + ".join(names), "workloads": tuple(by_name[n] for n in p.workloads)})
        for p in plan.pools
    )
    workloads = tuple(w.model_copy(update={"name": by_name[w.name]}) for w in plan.workloads)
    return plan.model_copy(update={"name": names[0], "case": case, "pools": pools, "workloads": workloads})


@cache
def plainly(target: str) -> dict[str, str]:
    """Where nobody has tried anything."""
    return export_plan(renamed(small(), ("one", "two"), "org/model"), target, Settings())


def headings(files: dict[str, str]) -> list[str]:
    return [line for line in files[README].split("\n") if line.startswith("#")][1:]


@settings(max_examples=25)
@given(st.tuples(ANY_NAME, ANY_NAME).filter(lambda pair: pair[0] != pair[1]), ANY_NAME.filter(bool))
def test_users_words_do_nothing_in_any_target(names: tuple[str, str], checkpoint: str) -> None:
    plan = renamed(small(), names, checkpoint)
    told = checkpoint if not checkpoint.startswith("-") else f"./{checkpoint}"
    for target in target_names():
        files = export_plan(plan, target, Settings())
        assert_valid(target, files)
        assert [name for name in files if not OURS.fullmatch(name)] == []
        assert headings(files) == headings(plainly(target))
        for _, found in objects(files):
            if found.get("kind") == "Deployment" and found["metadata"]["name"] != "litellm":
                first = found["spec"]["template"]["spec"]["containers"][0]["args"][0]
                assert first.replace("$$", "$") == told and "$" not in first.replace("$$", "")
            if target == "compose":
                for service in found["services"].values():
                    assert service["command"][0].replace("$$", "$") == told
                    assert "$" not in "".join(service["command"]).replace("$$", "")
            if target == "skypilot":
                assert shlex.split(found["run"].split("\n", 1)[1])[2] == told


SIZES = st.sampled_from([1, 2, 4, 8])


@given(st.lists(st.tuples(SIZES, st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
def test_replicas_fit_into_the_instances_that_the_checker_allows(told: list[tuple[int, int, int]]) -> None:
    wanted = [Wanted(gpus, firm, firm + more) for gpus, firm, more in told]
    by_size: Counter[int] = Counter()
    firm_by_size: Counter[int] = Counter()
    for w in wanted:
        by_size[w.gpus] += w.replicas
        firm_by_size[w.gpus] += w.firm
    firm = boxes_needed(8, firm_by_size)
    spot = max(0, boxes_needed(8, by_size) - firm)
    boxes = packed(8, firm, spot, wanted)
    assert all(0 <= box.free <= 8 for box in boxes)
    for k, w in enumerate(wanted):
        assert sum(box.replicas[k] for box in boxes) == w.replicas
        assert sum(box.replicas[k] for box in boxes if not box.spot) >= w.firm


@given(st.lists(st.tuples(SIZES, st.integers(2, 5)), min_size=1, max_size=4))
def test_replicas_that_are_spread_stand_in_two_instances(told: list[tuple[int, int]]) -> None:
    fewest = next(n for n in range(2, 99) if stand_apart(8, n, told))
    boxes = packed(8, fewest, 0, [Wanted(gpus, n, n) for gpus, n in told], spread=True)
    assert all(box.free >= 0 for box in boxes)
    for k, (_, replicas) in enumerate(told):
        assert sum(box.replicas[k] for box in boxes) == replicas
    roomy = packed(8, 2 * fewest, 0, [Wanted(gpus, n, n) for gpus, n in told], spread=True)
    assert all(sum(box.replicas[k] > 0 for box in roomy) > 1 for k in range(len(told)))


def test_skews_are_those_of_replicas_that_stand_as_evenly_as_there_is_room() -> None:
    assert skews(8, 2, [(2, 5), (2, 3)]) == [1, 1]
    assert skews(8, 4, [(8, 2), (1, 8)]) == [1, 4], "two instances are full, and count as having none of the others"
    assert skews(8, 1, [(4, 2)]) == [2]
    assert skews(8, 1, [(4, 3)]) is None

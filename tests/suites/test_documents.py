"""Documents are frozen by rule, loaded by hash, and kept apart from calibration texts."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.balance import balanced
from ridgefill.suites.documents import CALIBRATION, DOCUMENTS, calibration, haystack, main
from ridgefill.suites.freeze import Quota, Stretch, freeze
from ridgefill.suites.manifest import load, load_manifest, save_manifest, select, text_set
from ridgefill.texts import SOURCES, load_sources

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "data/texts/library"
SMALL = Quota((Stretch(2, 600),), heldout_chars=500, calibration_chars=900, shortest=200, longest=700)


@pytest.fixture
def two_domains(make_source, prose):
    """Two sources of twelve different files each."""
    return {
        name: make_source(name, {f"pkg/{i}.txt": prose(f"{name}{i}", 120) for i in range(12)}, domain=name)
        for name in ("alpha", "beta")
    }


@pytest.fixture
def frozen(two_domains, tmp_path):
    return freeze(two_domains, tmp_path / "cache", SMALL, {})


def test_roles_share_no_file_and_fill_their_quotas(frozen):
    """Every member appears once; each domain has what the quota asks."""
    evaluation, other = frozen
    members = [(document.source, document.member) for document in evaluation + other]
    assert len(set(members)) == len(members)
    assert Counter(document.domain for document in evaluation) == {"alpha": 2, "beta": 2}
    for domain in ("alpha", "beta"):
        for role, chars in (("heldout", 500), ("calibration", 900)):
            mine = [d.length for d in other if (d.domain, d.role) == (domain, role)]
            assert sum(mine) >= chars


def test_freezing_again_chooses_the_same(two_domains, tmp_path, frozen):
    """The choice depends on names and texts only."""
    assert freeze(two_domains, tmp_path / "cache", SMALL, {}) == frozen


def test_calibration_alternates_between_domains(frozen):
    """Any beginning of the calibration list is mixed."""
    domains = [document.domain for document in frozen[1] if document.role == "calibration"]
    assert set(domains[:2]) == {"alpha", "beta"} == set(domains[2:4])


def test_a_file_with_a_known_run_is_passed_over(make_source, prose, tmp_path):
    """A shared licence header keeps all but one file out, so the quota cannot be met."""
    header = prose("header", 60)
    files = {f"pkg/{i}.txt": header + " " + prose(i, 120) for i in range(12)}
    source = make_source("gamma", files)
    with pytest.raises(TextError, match="add a source or lower the quota"):
        freeze({"gamma": source}, tmp_path / "cache", SMALL, {})


def test_a_near_duplicate_is_passed_over(make_source, prose, tmp_path):
    """Twelve files of the same sentences, in another order each, are one file and eleven variants."""
    sentences = prose("s", 240).split(". ")
    files = {f"pkg/{i}.txt": ". ".join(sentences[i:] + sentences[:i]) for i in range(12)}
    one = Quota((Stretch(1, 600),), heldout_chars=0, calibration_chars=0, shortest=200)
    source = make_source("gamma", files)
    assert len(freeze({"gamma": source}, tmp_path / "cache", one, {})[0]) == 1
    with pytest.raises(TextError, match="add a source or lower the quota"):
        freeze({"gamma": source}, tmp_path / "cache", replace(one, evaluation=(Stretch(2, 600),)), {})


def test_a_file_becomes_the_longest_document_still_wanted(make_source, prose, tmp_path):
    """Two lengths: long files fill the longer one first, and every count is met."""
    files = {f"pkg/{i}.txt": prose(i, 80 if i % 2 else 400) for i in range(12)}
    two = Quota((Stretch(3, 400), Stretch(2, 2000)), heldout_chars=0, calibration_chars=0, shortest=200)
    evaluation, other = freeze({"gamma": make_source("gamma", files)}, tmp_path / "cache", two, {})
    assert Counter(document.length for document in evaluation) == {400: 3, 2000: 2}
    assert other == []


def test_haystack_files_are_never_documents(two_domains, tmp_path):
    """The retrieval haystack's files stay out of every role."""
    texts = {("alpha", "pkg/0.txt"): "unused", ("alpha", "pkg/1.txt"): "unused"}
    evaluation, other = freeze(two_domains, tmp_path / "cache", SMALL, texts)
    assert not {(d.source, d.member) for d in evaluation + other} & set(texts)


def test_other_languages_and_encodings_are_passed_over(make_source, prose, tmp_path):
    """Texts with many letters outside ASCII, and bytes that are no UTF-8, are not chosen."""
    files = {f"pkg/{i}.txt": prose(i, 120) for i in range(8)}
    files |= {"pkg/german.txt": "fünf süße Äpfel " * 60, "pkg/latin.txt": b"\xe9" * 800}
    evaluation, other = freeze({"delta": make_source("delta", files)}, tmp_path / "cache", SMALL, {})
    assert not {"pkg/german.txt", "pkg/latin.txt"} & {d.member for d in evaluation + other}


def test_a_document_loads_by_its_hash_and_a_wrong_one_is_refused(frozen, two_domains, tmp_path):
    """Right characters, right hash; anything else is one sentence."""
    document = frozen[0][0]
    assert len(load(document, tmp_path / "cache", two_domains)) == 600
    for wrong in (
        replace(document, sha256="0" * 64),
        replace(document, offset=1),
        replace(document, length=9999),
    ):
        with pytest.raises(TextError, match="was changed"):
            load(wrong, tmp_path / "cache", two_domains)


def test_a_manifest_survives_writing_and_reading(frozen, tmp_path):
    """What is saved is what is loaded, in order; no temporary file stays."""
    save_manifest(tmp_path / "m.json", frozen[0])
    assert load_manifest(tmp_path / "m.json") == tuple(frozen[0])
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: raw.update(schema_version=9), "not a manifest of schema version"),
        (lambda raw: raw.update(documents=[]), "lists no documents"),
        (lambda raw: raw["documents"].append(raw["documents"][0]), "same id"),
        (lambda raw: raw["documents"][0].pop("sha256"), "exactly the fields"),
        (lambda raw: raw["documents"][0].update(length="9"), "length must be of type int"),
        (lambda raw: raw["documents"][0].update(role="test"), "expected a role of"),
        (lambda raw: raw["documents"][0].update(length=0), "length >= 1"),
    ],
)
def test_a_malformed_manifest_is_one_sentence(frozen, tmp_path, change, says):
    """Each kind of damage has its own message."""
    path = tmp_path / "m.json"
    save_manifest(path, frozen[0])
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(TextError, match=says):
        load_manifest(path)


def test_selection_takes_the_first_of_each_domain(frozen):
    """The first n of each domain in the order of the domains; too few is an error."""
    chosen = select(frozen[0], ["beta", "alpha"], 1)
    assert [document.domain for document in chosen] == ["beta", "alpha"]
    with pytest.raises(TextError, match="2 documents, 3 are asked for"):
        select(frozen[0], ["beta"], 3)


def test_calibration_reads_one_role_of_the_named_sources(frozen, two_domains, tmp_path, sources_file):
    """Texts of the role and sources asked for, and TextError for none."""
    listing, manifest = sources_file(*two_domains.values()), tmp_path / "c.json"
    save_manifest(manifest, frozen[1])
    options = {"manifest": manifest, "sources_file": listing}
    for role in ("calibration", "heldout"):
        found = dict(calibration(["beta"], tmp_path / "cache", role=role, **options))
        expected = [d.id for d in frozen[1] if (d.role, d.source) == (role, "beta")]
        assert list(found) == expected
        assert all(found.values())
    with pytest.raises(TextError, match="no text source 'zeta'"):
        calibration(["zeta"], tmp_path / "cache", **options)
    with pytest.raises(TextError, match="no evaluation text from beta"):
        calibration(["beta"], tmp_path / "cache", role="evaluation", **options)


def test_the_haystack_is_a_range_of_members_in_name_order(two_domains, tmp_path, sources_file):
    """First to last, last excluded; a range outside is an error."""
    listing = sources_file(*two_domains.values())
    texts = haystack("alpha", 1, 3, tmp_path / "cache", listing)
    assert list(texts) == [("alpha", "pkg/1.txt"), ("alpha", "pkg/10.txt")]
    for first, last in ((3, 3), (0, 13), (-1, 2)):
        with pytest.raises(TextError, match="out of range; the source has 12 texts"):
            haystack("alpha", first, last, tmp_path / "cache", listing)


def command(tmp_path, listing, name, *more):
    where = ["--cache", str(tmp_path / "cache"), "--sources", str(listing), "--haystack", "hay:0:1"]
    manifests = ["--documents", str(tmp_path / "d.json"), "--calibration", str(tmp_path / "c.json")]
    return main([name, *where, *manifests, *more])


def test_the_gate_command_reports_and_fails_on_a_shared_run(make_source, prose, tmp_path, sources_file, capsys):
    """Freeze, check (0), then a haystack that contains a calibration text (5); the report lists the run."""
    files = {f"pkg/{i:02}.txt": prose(f"file{i}", 2200) for i in range(30)}
    hay = make_source("hay", {"pkg/h.txt": prose("hay", 300)}, domain=None)
    listing = sources_file(hay, make_source("alpha", files, domain="alpha"))
    assert command(tmp_path, listing, "freeze") == 0
    report = tmp_path / "overlap.json"
    assert command(tmp_path, listing, "check", "--report", str(report)) == 0
    assert json.loads(report.read_text())["findings"] == []
    member = json.loads((tmp_path / "c.json").read_text())["documents"][-1]["member"]
    copied = make_source("hay", {"pkg/h.txt": files[member]}, domain=None)
    listing = sources_file(copied, load_sources(listing)["alpha"])
    capsys.readouterr()
    assert command(tmp_path, listing, "check", "--report", str(report)) == 5
    assert "share runs of 50 words" in capsys.readouterr().err
    assert json.loads(report.read_text())["findings"][0]["evaluation"] == "haystack/hay/pkg/h.txt"


def test_a_set_of_texts_is_a_folder_that_can_keep_its_calibration(make_source, prose, tmp_path, sources_file, capsys):
    """Named by its folder: frozen beside calibration texts that stay as they are and are no document, then checked."""
    files = {f"pkg/{i:02}.txt": prose(f"file{i}", 2200) for i in range(30)}
    hay = make_source("hay", {"pkg/h.txt": prose("hay", 300)}, domain=None)
    alpha = make_source("alpha", files, domain="alpha")
    where = ["--set", str(tmp_path), "--cache", str(tmp_path / "cache"), "--haystack", "hay:0:1"]
    sources_file(hay, alpha)
    assert main(["freeze", *where]) == 0
    kept = (tmp_path / "calibration.json").read_bytes()
    assert main(["freeze", *where, "--keep-calibration", "--stretch", "4:900", "--stretch", "2:5000"]) == 0
    assert (tmp_path / "calibration.json").read_bytes() == kept
    documents = load_manifest(tmp_path / "documents.json")
    assert Counter(document.length for document in documents) == {900: 4, 5000: 2}
    assert not {d.member for d in documents} & {d.member for d in load_manifest(tmp_path / "calibration.json")}
    capsys.readouterr()
    assert main(["check", *where, "--markdown", str(tmp_path / "o.md")]) == 0
    assert "| evaluation | alpha | 6 | 13,600 |" in (tmp_path / "o.md").read_text()
    assert main(["list", *where]) == 0
    assert capsys.readouterr().out.count("\n| alpha/") == 6


def test_the_gate_refuses_documents_that_are_variants_of_each_other(make_source, prose, tmp_path, sources_file, capsys):
    """The same member under two ids is found by the check, whatever froze it."""
    files = {f"pkg/{i:02}.txt": prose(f"file{i}", 2200) for i in range(30)}
    hay = make_source("hay", {"pkg/h.txt": prose("hay", 300)}, domain=None)
    listing = sources_file(hay, make_source("alpha", files, domain="alpha"))
    assert command(tmp_path, listing, "freeze") == 0
    documents = load_manifest(tmp_path / "d.json")
    save_manifest(tmp_path / "d.json", [*documents, replace(documents[0], id="again")])
    assert command(tmp_path, listing, "check") == 5
    assert "near-duplicates, the first being" in capsys.readouterr().err


def test_the_files_of_a_set_lie_beside_each_other():
    """The set of a manifest is its folder's, whatever the manifest is called."""
    assert text_set(DOCUMENTS).sources == SOURCES
    assert text_set(DOCUMENTS).calibration == CALIBRATION == text_set(DOCUMENTS.with_name("mine.json")).calibration


def test_the_library_has_eight_domains_of_three_lengths_beside_the_same_calibration():
    """Eight domains, each three, two and one document; the calibration texts of the first set, none of its files."""
    files = text_set(LIBRARY / "documents.json")
    documents, sources = load_manifest(files.documents), load_sources(files.sources)
    assert files.calibration.read_bytes() == (ROOT / CALIBRATION).read_bytes()
    assert len({d.domain for d in documents}) == 8
    for domain in {d.domain for d in documents}:
        assert Counter(d.length for d in documents if d.domain == domain) == {54_000: 3, 102_000: 2, 187_000: 1}
    assert all((d.licence, d.domain) == (sources[d.source].licence, sources[d.source].domain) for d in documents)
    other = (*load_manifest(files.calibration), *load_manifest(ROOT / DOCUMENTS))
    assert not {d.source for d in documents} & {d.source for d in other}
    assert all(source.domain is None or name in {d.source for d in documents} for name, source in sources.items())


def test_sources_of_both_sets_are_pinned_alike():
    """One unpacked folder serves both sets: only the domain may differ."""
    first, library = load_sources(ROOT / SOURCES), load_sources(LIBRARY / "sources.json")
    assert set(first) <= set(library)
    assert all(replace(library[name], domain=source.domain) == source for name, source in first.items())


def test_twenty_library_documents_can_be_drawn_at_three_lengths():
    """Prompts of 8K, 16K and 32K and the 512 tokens after them: 7, 7 and 6, all different."""
    drawn = balanced(load_manifest(LIBRARY / "documents.json"), 20, (8_704, 16_896, 33_280), seed=0)
    assert Counter(length for _, length in drawn) == {8_704: 7, 16_896: 7, 33_280: 6}


def test_the_frozen_manifests_have_domains_and_roles_that_share_no_file():
    """Five domains of ten documents; calibration and held-out in another file, no member twice."""
    documents = load_manifest(ROOT / DOCUMENTS)
    other = load_manifest(ROOT / CALIBRATION)
    sources = load_sources(ROOT / SOURCES)
    assert Counter(d.domain for d in documents) == dict.fromkeys(
        ("code", "documentation", "essays", "guides", "legal"), 10
    )
    assert {d.role for d in documents} == {"evaluation"}
    assert {d.role for d in other} == {"calibration", "heldout"}
    members = [(d.source, d.member) for d in (*documents, *other)]
    assert len(set(members)) == len(members)
    assert all(d.licence == sources[d.source].licence for d in (*documents, *other))
    assert {d.length for d in documents} == {12_000}

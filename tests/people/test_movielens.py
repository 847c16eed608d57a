"""MovieLens as GroupLens ships it, in every form, from tiny made-up files; and wide tables."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import RecordError, Schema, TableError
from keyveil.people.tables import movielens_files as movielens
from keyveil.people.tables.movielens_files import read_movielens
from keyveil.people.tables.wide_tables import wide_keys, wide_people

# User, film, stars: film 30 has four ratings, 10 three, 20 two, 40 one; user 9 rated film 40 alone.
RATINGS = [
    *((1, 10, 5.0), (1, 30, 4.0), (1, 20, 1.0), (2, 10, 3.0), (2, 30, 2.0)),
    *((5, 30, 5.0), (5, 20, 4.0), (7, 10, 1.0), (7, 30, 3.0), (9, 40, 2.0)),
]


def folder_of(tmp_path, name: str, ratings=RATINGS, folder: str = "some"):
    path = tmp_path / folder
    path.mkdir(parents=True)
    between = {"ratings.csv": ",", "ratings.dat": "::", "u.data": "\t"}[name]
    lines = [between.join((str(u), str(f), f"{r:g}", "978300760")) for u, f, r in ratings]
    if name == "ratings.csv":
        lines = ["userId,movieId,rating,timestamp", *lines]
    (path / name).write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "halves"),
    [
        *(("ratings.csv", False), ("ratings.csv", True)),
        *(("ratings.dat", False), ("ratings.dat", True)),  # 1M and 10M
        ("u.data", False),
    ],
)
def test_every_form_gives_the_same_people(tmp_path, name, halves):
    ratings = [*RATINGS, (11, 30, 0.5)] if halves else RATINGS
    folder = folder_of(tmp_path, name, ratings)
    read = read_movielens(folder, 3)
    assert read.schema.keys == ("30", "10", "20")
    assert read.rows == len(ratings)
    assert len(read.people) == len({user for user, *_ in ratings}), "user 9 is there, with no top film"
    want = [{str(f): r for u, f, r in ratings if u == user and f != 40} for user in (1, 2, 5, 7, 9)]
    assert list(read.people.records(read.schema))[:5] == want
    whole = name == "u.data" or (name == "ratings.dat" and not halves)
    assert read.stars.tolist() == ([1, 2, 3, 4, 5] if whole else [h / 2 for h in range(1, 11)])
    assert (read.points[0], read.points[-1]) == (-1, 1)
    assert read.counts.sum(axis=1).tolist() == [5 if halves else 4, 3, 2]
    assert read.counts[1] @ read.stars == 5 + 3 + 1
    for other in (folder.parent, folder / name):  # the folder around it, and the file itself
        assert read_movielens(other, 3).schema == read.schema


def test_ties_go_to_the_smaller_number_and_too_few_films_are_said(tmp_path):
    folder = folder_of(tmp_path, "u.data", [(1, 8, 1.0), (1, 3, 2.0), (2, 5, 1.0)])
    assert read_movielens(folder, 2).schema.keys == ("3", "5")
    with pytest.raises(TableError, match="has 3 films; the top 4"):
        read_movielens(folder, 4)


def refused(path, words: str) -> None:
    with pytest.raises(TableError, match=words) as error:
        read_movielens(path, 2)
    assert "\n" not in str(error.value)
    assert "978300" not in str(error.value), "no row is quoted"


def test_wrong_folders_are_told_what_was_looked_for(tmp_path):
    refused(tmp_path / "nowhere", "there is no folder")
    (tmp_path / "movies.csv").write_text("movieId,title\n")
    refused(tmp_path, r"has no MovieLens ratings; looked for ratings.csv \(20M")
    refused(tmp_path / "movies.csv", "movies.csv is not a MovieLens ratings file")
    (tmp_path / "ml-20m.zip").write_bytes(b"PK")
    refused(tmp_path / "ml-20m.zip", "ml-20m.zip is packed; unpack it and name the folder")
    refused(tmp_path, "ml-20m.zip is packed; unpack it and name the folder")
    refused(tmp_path / "ml-25m.zip", "there is no folder")


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.dat", "u.data"])
def test_files_that_are_cut_short_or_something_else_are_refused(tmp_path, name):
    path = folder_of(tmp_path, name) / name
    whole = path.read_text()
    path.write_text(whole[:-4])
    refused(path, "cut short")
    path.write_text(whole[: whole.rindex("9783")].rstrip(",:\t") + "\n")  # a line without its time
    refused(path, "cut short, or not what its name says")
    path.write_text("")
    refused(path, "is empty")
    path.write_text("title,genre\nToy Story,Fun\n")
    refused(path, "does not begin as MovieLens's does")
    path.write_text(whole.replace("\n", "\r\n", 1) if name == "ratings.csv" else whole)
    assert read_movielens(path, 2).rows == len(RATINGS)
    if name == "ratings.csv":  # a byte-order mark, and names in quotes, as some tools write them
        path.write_text("\ufeff" + whole.replace("userId,movieId", '"userId","movieId"'))
        assert read_movielens(path, 2).rows == len(RATINGS)


@pytest.mark.parametrize("row", [(1, 10, 7.0), (1, 10, 3.3), (1 << 40, 10, 3.0), (-1, 10, 3.0)])
@pytest.mark.parametrize(("name", "line"), [("ratings.csv", 12), ("ratings.dat", 11), ("u.data", 11)])
def test_ratings_and_numbers_that_movielens_has_not_are_refused_by_line(tmp_path, row, name, line):
    folder = folder_of(tmp_path, name, [*RATINGS, row, (2, 20, 1.0)])
    refused(folder, f"{name}, line {line}: a (rating other than|user or film number that)")
    path = folder / name
    path.write_text(path.read_text().replace("\n", "\n\n", 2))  # empty lines are no ratings, but lines
    refused(folder, f"{name}, line {line + 2}: a (rating other than|user or film number that)")


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(movielens, "BLOCK", 64)
    refused(folder_of(tmp_path, "u.data", [*RATINGS, (1, 10, 7.0)]), "u.data, line 11: a rating")
    twice = [*RATINGS[:9], (1, 30, 1.0), *RATINGS[9:]]
    refused(folder_of(tmp_path, "u.data", twice, "twice"), "u.data, line 10: the person has rated")


def test_cells_may_be_in_quotes_as_the_names_may(tmp_path):
    path = folder_of(tmp_path, "ratings.csv") / "ratings.csv"
    plain = read_movielens(path, 3)
    lines = path.read_text().splitlines()
    path.write_text("".join(",".join(f'"{cell}"' for cell in line.split(",")) + "\n" for line in lines))
    quoted = read_movielens(path, 3)
    assert quoted.schema == plain.schema
    assert list(quoted.people.records(quoted.schema)) == list(plain.people.records(plain.schema))


def test_a_release_that_lacks_ratings_is_refused_by_its_count(tmp_path, monkeypatch):
    folder = folder_of(tmp_path, "u.data", folder="ml-100k")
    refused(folder, "has 10 ratings, but this release has 100,000")
    monkeypatch.setitem(movielens.RELEASES, "ml-100k", 10)
    assert read_movielens(folder, 2).rows == 10


def test_a_film_rated_twice_by_one_person_is_refused(tmp_path):
    folder = folder_of(tmp_path, "u.data", [*RATINGS, (1, 30, 1.0)])
    refused(folder, r"u.data, line 11: the person has rated this film before; each rates a film once$")


# -- wide tables -------------------------------------------------------------------------------------

WIDE = "name,tea,milk,salt\nann,1,,3\nbob,,,\ncy,2,5,4\n"


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "frame"])
def test_a_wide_table_is_people_with_a_column_for_each_key(tmp_path, form):
    import pandas

    path = tmp_path / f"table.{form}"
    if form in ("csv", "tsv"):
        path.write_text(WIDE if form == "csv" else WIDE.replace(",", "\t"))
        source = path
    else:
        (tmp_path / "t.csv").write_text(WIDE)
        source = pandas.read_csv(tmp_path / "t.csv")
        if form == "parquet":
            source.to_parquet(path)
            source = path
    assert wide_keys(source, person="name") == ["tea", "salt", "milk"]
    keys = wide_keys(source, person="name", top=2)
    schema = Schema.of(keys, 1, 5)
    people = wide_people(schema, source, person="name")
    assert list(people.records(schema)) == [{"tea": 1, "salt": 3}, {}, {"tea": 2, "salt": 4}]
    assert len(wide_people(schema, source)) == 3
    with pytest.raises(TableError, match="names a person twice"):
        wide_people(schema, pandas.DataFrame({"p": [1, 1], "tea": [1, 2], "salt": [1, 1]}), person="p")


def test_wide_tables_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(WIDE)
    with pytest.raises(TableError, match="'soap' is not in the table"):
        wide_people(Schema.of(["soap"]), path)
    with pytest.raises(TableError, match="'name' must hold numbers"):
        wide_people(Schema.of(["name"]), path)
    with pytest.raises(RecordError, match="outside"):
        wide_people(Schema.of(["tea"], 0, 1), path, person="name")
    clipped = wide_people(Schema.of(["tea"], 0, 1), path, person="name", lenient=True)
    assert np.array_equal(clipped.values, [1, 1])
    with pytest.raises(TableError, match="no file"):
        wide_keys(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder; name the file"):
        wide_keys(tmp_path)
    for name, content in (("empty.csv", ""), ("cut.csv", WIDE[:-5]), ("cut.parquet", "PAR1")):
        (tmp_path / name).write_text(content)
        with pytest.raises(TableError, match="cut short, or not what its name says") as error:
            wide_keys(tmp_path / name)
        assert "cy" not in str(error.value), "no row is quoted"
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(TableError, match="cannot tell by its ending"):
        wide_keys(tmp_path / "t.xlsx")

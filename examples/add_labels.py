"""Add labels to a model by their text, without training again.

    python examples/add_labels.py

TextMatch compares a title with the text of each label, so a new label needs a description and no training point. The
default blend has it as a member, beside DECAF, whose classifiers are made of label text too: ``add_labels`` works there
in the same way. The data is what ships with longtail: titles of Debian packages, and the packages that they depend on.
"""

from __future__ import annotations

import longtail

NEW = {
    "weatherlib": "library that reads the weather forecast from the internet",
    "chessengine": "engine that plays chess",
}

data = longtail.read(longtail.DEMO)
tagger = longtail.Tagger("textmatch").fit_dataset(data)

titles = ("desktop widget that shows the weather forecast", "graphical chess board that plays against a chess engine")
for title in titles:
    print(f"before: {title}\n  " + "\n  ".join(name for name, _ in tagger.suggest(title, k=3)))

tagger.add_labels(list(NEW), list(NEW.values()))
print(f"\nadded {len(NEW)} labels\n")

for title in titles:
    print(f"after: {title}")
    for name, score in tagger.suggest(title, k=10):
        print(f"  {score:.3f}  {name}" + ("  <- new" if name in NEW else ""))

"""Read texts and labels from a CSV file, train, and suggest labels for new texts.

    python examples/tag_from_csv.py [FILE.csv] [TEXT ...]

The file has a column ``text`` and a column ``labels``, whose labels are separated by ``|``. Without arguments, the
script uses the recipes beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import longtail

path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("recipes.csv")
texts = sys.argv[2:] or ["carrot soup with cream", "rye bread with rosemary", "chocolate cake with cream"]

data = longtail.read(path)
print(f"{path.name}: {data.n_points} texts, {data.n_labels} labels")

# Bonsai trains in seconds. Leave the name out for the default model, which is more accurate and slower.
tagger = longtail.Tagger("bonsai").fit_dataset(data)

for text in texts:
    print(f"\n{text}")
    for label, probability in tagger.suggest(text, k=3):
        print(f"  {probability:.2f}  {label}")

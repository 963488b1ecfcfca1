"""Writes third_party/vega/vega-embed.min.js: Vega, Vega-Lite and Vega-Embed as one script, for the pages of reports.

python3 -m venv build/vega && build/vega/bin/pip install vl-convert-python==1.9.0.post1
build/vega/bin/python scripts/make_vega_bundle.py

The wheel holds the libraries and their bundler; nothing else is read, and the same wheel writes the same file. The
licences stand at its head, so that pages carry them.
"""

import pathlib

import vl_convert

VEGA_LITE = "6.4"
FOLDER = pathlib.Path(__file__).parent.parent / "third_party" / "vega"


def main() -> None:
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    vega, embed = vl_convert.get_vega_version(), vl_convert.get_vega_embed_version()
    head = f"Vega {vega}, Vega-Lite {VEGA_LITE}, Vega-Embed {embed}\n\n{(FOLDER / 'LICENSES.txt').read_text()}"
    text = f"/*\n{head}*/\n(() => {{{script}}})();\n"
    for end in ("</script", "<!--", ")plimsoll"):  # of a page's script, or of the literal in C++
        assert end not in text, end
    (FOLDER / "vega-embed.min.js").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

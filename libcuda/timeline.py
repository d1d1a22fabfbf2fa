"""Draws a timeline that `custack-run --trace` has written: `timeline.py TRACE PICTURE.png`, with Pillow."""

import json
import sys

from PIL import Image, ImageDraw, ImageFont

ROW, LEFT, TOP, WIDTH = 44, 120, 50, 1200
COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#e15759", "#9c755f"]


def main(trace, picture):
    with open(trace) as file:
        events = json.load(file)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    calls = [event for event in events if event["ph"] == "X"]
    # From the first launch on, with what comes shortly before: loading takes long, and nothing else happens.
    begin = min(event["ts"] for event in calls if "Launch" in event["name"]) - 2000
    end = max(event["ts"] + event["dur"] for event in calls)
    rows = {tid: at for at, tid in enumerate(sorted(names))}
    image = Image.new("RGB", (WIDTH, TOP + ROW * len(rows) + 10), "white")
    draw = ImageDraw.Draw(image)
    font, small = ImageFont.load_default(15), ImageFont.load_default(13)
    scale = (WIDTH - LEFT - 20) / (end - begin)
    for step in range(0, int((end - begin) / 1000) + 1, 5):
        x = LEFT + step * 1000 * scale
        draw.line((x, TOP - 12, x, TOP + ROW * len(rows)), fill="#dddddd")
        draw.text((x, TOP - 32), f"{step} ms", font=small, fill="#666666", anchor="ma")
    for tid, at in rows.items():
        draw.text((10, TOP + ROW * at + ROW / 2), names[tid], font=font, fill="black", anchor="lm")
    kinds = {}
    for event in sorted(calls, key=lambda event: -event["dur"]):
        if event["ts"] + event["dur"] < begin:
            continue
        left = LEFT + max(event["ts"] - begin, 0) * scale
        right = max(LEFT + (event["ts"] + event["dur"] - begin) * scale, left + 2)
        top = TOP + ROW * rows[event["tid"]] + 4
        colour = kinds.setdefault(event["name"], COLOURS[len(kinds) % len(COLOURS)])
        draw.rectangle((left, top, right, top + ROW - 8), fill=colour, outline="white")
        if draw.textlength(event["name"], font=font) < right - left - 8:
            draw.text((left + 6, top + (ROW - 8) / 2), event["name"], font=font, fill="white", anchor="lm")
    image.save(picture, optimize=True)


main(*sys.argv[1:])

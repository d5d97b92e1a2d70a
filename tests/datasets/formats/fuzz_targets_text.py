"""The text formats that are fuzzed, each with a few small sound inputs."""

from __future__ import annotations

import gzip
from functools import partial

from fuzz_targets import Target

from mogp.datasets.formats.amc import read_amc
from mogp.datasets.formats.arff import read_arff, read_labels
from mogp.datasets.formats.bvh import read_bvh
from mogp.datasets.formats.delimited import read_numbers, read_table
from mogp.datasets.formats.extreme import iter_extreme, read_extreme, read_split
from mogp.datasets.formats.geojson import read_points
from mogp.datasets.formats.json_array import read_json_array
from mogp.datasets.formats.keel import read_keel

NUMBERS = b"1,2.5,-3e2\n?,0,.5\n\n7,8,9\n"
HEADED = b'a,"b, c",d\r\n1,,3\r\n4,5,6\r\n'
BLANK = b"  1.0e+00  2 3 \n4\t5\t6\n"
TABLE = b'name,"size",n\n"a ""quoted""",1.5,1\nb, 2.5 ,2\n"two\nlines",?,3\n'
INDEXED = b'"date","n"\n"1","2015-02-02 14:19:00",1\n"2",2015-02-03,2\n'
PAGE = b"<html>\n<pre>title\nday,rate\n1,\n2,0.5\n(C)\n</pre></html>"
DENSE_ARFF = b"""% comment
@relation 'a relation'
@attribute width numeric
@attribute 'a \\'name' {red, 'dark blue', 3}
@attribute text string
@attribute day date "yyyy-MM-dd"
@attribute n{0,1}
@data
1.5, red, 'it\\'s', 2001-01-01, 0
?, 'dark blue', "b", ?, 1
% between
-2e3,3,b,2001-01-02,?
"""
SPARSE_ARFF = b"""@RELATION sparse
@ATTRIBUTE a real
@ATTRIBUTE b {0,1}
@ATTRIBUTE c {no,yes,'not sure'}
@DATA
{0 1.5, 2 yes}
{}
{1 1,2 'not sure'}
{2 ?, 0 -1}
"""
XML = b"""<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="one"></label><label name="two"><label name="below &amp; two"/></label>
</labels>
"""
EXTREME = b"4 5 3\n0,2 0:1.000000 4:-2.5e-1\n 1:3\n1\n2,1 3:1 2:0.5 \n"
SPLIT = b"2 1\n3 2\n1 3\n"
KEEL = b"""@relation iris
@attribute length real [4.3, 7.9]
@attribute n integer[0,9]
@attribute class {setosa, virginica}
@inputs length, n
@outputs class
@data
5.1, 3, setosa
<null>, ?, virginica
"""
BVH = b"""HIERARCHY
ROOT Hips
{
  OFFSET 0.0 0.0 0.0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Leg
  {
    OFFSET 1 -2 .5
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0 0 1
    }
  }
}
MOTION
Frames: 2
Frame Time: .0083333
1 2 3 4 5 6 7 8 9
1.5 2 -3 4 5e-3 6 7 8 9
"""
AMC = b"""#!OML:ASF a comment
:FULLY-SPECIFIED
:DEGREES
1
root 1 2 3 4.5 5 6
lfemur -1 2e-14 3
ltibia 7
2
root 1 2 3 4.5 5 7
lfemur -1 2 3
ltibia 8
"""
GEOJSON = b"""{"type": "FeatureCollection", "crs": {"type": "name"},
"features": [
{"type": "Feature", "properties": {"cp": 1, "road": "A\\u00e9", "x": null},
 "geometry": {"type": "Point", "coordinates": [-0.25, 51.5]}},
{"type": "Feature", "properties": {"cp": 2, "road": "M1", "x": 0.5},
 "geometry": {"type": "Point", "coordinates": [1, 52, 10]}}]}
"""
JSON_ARRAY = b'{"in": {"0": [0.0, 1, 2e1], "1": [3, 4, 5]},\n "out": {"1": [6, 7, 8], "0": [9, 10, 11]}}'

TARGETS = [
    Target("numbers", partial(read_numbers, missing="?"), (NUMBERS, b"1\n2\n3")),
    Target("numbers-header", partial(read_numbers, header=["a", "b, c", "d"], missing=""), (HEADED,)),
    Target("numbers-blanks", partial(read_numbers, delimiter=None, columns=3), (BLANK,)),
    Target("numbers-gzip", read_numbers, (gzip.compress(b"1,2\n3,4\n", mtime=0),), suffix=".csv.gz"),
    Target("table", partial(read_table, missing=("?",)), (TABLE, HEADED.replace(b",,", b",?,"))),
    Target("table-index", partial(read_table, index=True, columns=2), (INDEXED, b",a,b\n1,2,3\n4,5,6\n")),
    Target("table-page", partial(read_table, missing=("",), skip=2, footer=2, header=["day", "rate"]), (PAGE,)),
    Target("table-blanks", partial(read_table, delimiter=None, header=False, comment="#"), (b"# a\n" + BLANK,)),
    Target("arff", read_arff, (DENSE_ARFF, SPARSE_ARFF)),
    Target("mulan-labels", read_labels, (XML,)),
    Target("extreme", read_extreme, (EXTREME,)),
    Target("extreme-stream", lambda path: [X.nnz + Y.nnz for X, Y in iter_extreme(path, 2)], (EXTREME,)),
    Target("extreme-split", partial(read_split, columns=2, size=3), (SPLIT,)),
    Target("keel", read_keel, (KEEL, KEEL.partition(b"@data\n")[2])),
    Target("bvh", read_bvh, (BVH,)),
    Target("amc", read_amc, (AMC,)),
    Target("geojson", read_points, (GEOJSON,)),
    Target("json-array", lambda path: read_json_array(path, ("in", "out"), ("0", "1")), (JSON_ARRAY,)),
]

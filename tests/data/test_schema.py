"""What a model remembers of its data, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mogp.data import InputColumn, MultiOutputData, Schema

FRAME = pd.DataFrame({"lon": [0.0, 1.0], "lat": [2.0, 3.0], "rain": [1.0, 2.0], "sky": ["blue", "grey"]})
DATA = MultiOutputData.from_table(FRAME, ["lon", "lat"], ["rain", "sky"])


def test_the_schema_of_data_has_names_columns_and_classes():
    schema = DATA.schema
    assert schema.names == ("rain", "sky")
    assert schema.input_names == ("lon", "lat")
    assert schema.classes == (None, ("blue", "grey"))
    assert schema.classes_of(1) == ("blue", "grey")
    schema.check(schema)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"names": ("sky", "rain")}, "in the order sky, rain, the model in the order rain, sky"),
        ({"names": ("rain", "snow")}, r"2 outputs \(rain, snow\), the model has 2 \(rain, sky\)"),
        ({"columns": (InputColumn("lat"), InputColumn("lon"))}, "input columns lat, lon, the model lon, lat"),
        ({"columns": (InputColumn("lon"), InputColumn("lat", date=True))}, r"lat \(dates\)"),
        ({"columns": (InputColumn("lon"),)}, r"1 input columns \(lon\), the model has 2 \(lon, lat\)"),
        ({"classes": (None, ("grey", "blue"))}, "classes grey, blue for output 'sky', the model blue, grey"),
    ],
)
def test_other_outputs_columns_and_classes_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        DATA.schema.check(replace(DATA.schema, **changes))


def test_arrays_without_names_are_accepted():
    DATA.schema.check(replace(DATA.schema, columns=(InputColumn(),) * 2))


def test_some_of_the_outputs_will_do_for_a_prediction_but_not_for_training():
    fewer = replace(DATA.schema, names=("sky",), classes=(("blue", "grey"),))
    DATA.schema.check(fewer, some=True)
    with pytest.raises(ValueError, match="names and order must agree"):
        DATA.schema.check(fewer)


def test_a_schema_without_names_takes_those_of_the_first_data():
    assert Schema.of(None, 2).completed(DATA.schema) == DATA.schema
    named = Schema.of(["rain", "sky"], 2).completed(DATA.schema)
    assert named.input_names == ("lon", "lat")
    assert DATA.schema.completed(Schema(("other",))) == DATA.schema


def test_the_number_of_names_must_fit():
    with pytest.raises(ValueError, match=r"2 names \(a, b\) for 3 outputs"):
        Schema.of(["a", "b"], 3)


def test_a_handmade_model_adopts_the_names_of_the_data_it_is_fitted_on():
    import mogp
    from mogp.inducing import kmeans_points
    from mogp.kernels import unit_kernels
    from mogp.likelihoods import Gaussian
    from mogp.models import SparseMOGP
    from mogp.priors import Independent

    frame = pd.DataFrame({"hour": np.linspace(0, 1, 5), "rain": np.arange(5.0)})
    data = MultiOutputData.from_table(frame, "hour", "rain")
    model = SparseMOGP(Independent(unit_kernels(1, 1)), kmeans_points(data, 3, sets=1), Gaussian())
    assert model.names == ("output 0",)
    mogp.fit(model, data, steps=1, progress=False)
    assert model.names == ("rain",)
    assert list(model.predict(frame.iloc[3:], quantiles=())["hour"]) == [0.75, 1.0]
    with pytest.raises(ValueError, match="no column 'hour'"):
        model.predict_y(frame.rename(columns={"hour": "time"}))

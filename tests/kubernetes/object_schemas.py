"""Which fields an object may have: schemas/ has what we use of each API, and no more."""

import json
import pathlib

import jsonschema

SCHEMAS = {path.name: json.loads(path.read_text()) for path in pathlib.Path("tests/kubernetes/schemas").glob("*.json")}


def schema_of(each):
    """The name of the file, and of the definition in it."""
    kind = f"{each['apiVersion']}/{each['kind']}"
    return next((name, kind) for name, schema in SCHEMAS.items() if kind in schema["definitions"])


def problems_of(each):
    name, kind = schema_of(each)
    schema = SCHEMAS[name]
    resolver = jsonschema.RefResolver(base_uri=name, referrer=schema, store=SCHEMAS)
    validator = jsonschema.Draft7Validator(schema["definitions"][kind], resolver=resolver)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(each)]

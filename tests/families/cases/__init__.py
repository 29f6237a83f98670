"""Configs of small transformers models, one file for each family: `CONFIGS`, a name for each.

There is no list to add a file to. Windows and lengths of training are shorter than the 12 tokens of the parity tests,
and every optional part of a family is switched on in some config.
"""

from importlib import import_module
from pkgutil import iter_modules

from workbench.families import supported

# transformers configs by name; every supported family has a file.
ALL = {
    f"{module.name}: {name}": config
    for module in iter_modules(__path__)
    for name, config in import_module(f"{__name__}.{module.name}").CONFIGS.items()
}
WITHOUT = set(supported()) - {module.name for module in iter_modules(__path__)}

package render

import (
	"maps"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// PlainFunctions returns the functions of stages' templates that depend on their arguments only, and sprig's with the machine's
// clock, for templates that are no stages. Functions that read the environment or the network are left out, as in stages.
func PlainFunctions() template.FuncMap {
	out := template.FuncMap(sprig.TxtFuncMap())
	for name := range unsupported {
		delete(out, name)
	}
	maps.Copy(out, template.FuncMap{"Quote": quote, "YAML": toYAML, "NodeConditions": nodeConditionValues})
	return out
}

package stage

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/itchyny/gojq"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// query is a compiled jq program on an object. Its results are strings:
// booleans and numbers stand as they do in JSON; objects and arrays count for
// "exists" but equal no string; null counts for nothing. A jq error makes the
// whole result empty, so ".status.conditions[]" on an object without conditions
// is simply absent.
//
// KWOK never matches a number that jq did not make itself ("3" In ["3"] on
// .spec.replicas is false there, because such numbers arrive as floats); here a
// number equals its JSON text.
type query struct {
	text   string
	native *native
	code   *gojq.Code
}

// view is the object under decision; its JSON is made once and only if asked for.
type view struct {
	object metav1.Object
	json   any
	now    time.Time
}

// asJSON returns the object as JSON values. Typed objects carry no apiVersion
// and kind, as in KWOK.
func (v *view) asJSON() any {
	if v.json == nil {
		v.json = toJSON(v.object)
	}
	return v.json
}

// toJSON is the JSON form of a typed object with plain numbers, or nil when it
// has none.
func toJSON(object any) any {
	data, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(data, &out) != nil {
		return nil
	}
	return out
}

const nowVariable = "$__now"

// mostResults is how many results of one program are looked at. A program with
// more counts as one that failed: "repeat(1)" must not stop the engine.
const mostResults = 10_000

// compileQuery compiles a jq program for objects of one kind. mayReadNow allows
// the program to read the time; a selector may not, because nothing would wake
// the object when time alone makes it match.
func compileQuery(text string, kind Kind, mayReadNow bool) (*query, error) {
	parsed, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	if err := checkFunctions(parsed, mayReadNow); err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	q := &query{text: text, native: nativeFor(parsed, kind)}
	q.code, err = gojq.Compile(parsed,
		gojq.WithVariables([]string{nowVariable}),
		gojq.WithEnvironLoader(func() []string { return nil }))
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	return q, nil
}

// impure are jq functions whose answer is not in the object.
var impure = map[string]string{
	"input":          "there is no further input",
	"inputs":         "there is no further input",
	"debug":          "it writes to the terminal",
	"stderr":         "it writes to the terminal",
	"halt":           "it ends the program",
	"halt_error":     "it ends the program",
	"env":            "it reads the environment",
	"$ENV":           "it reads the environment",
	"localtime":      "it reads the machine's time zone",
	"strflocaltime":  "it reads the machine's time zone",
	"input_filename": "there is no input file",
}

// checkFunctions refuses programs that are not a function of the object, and
// turns now into a variable so that the decision's own time is read.
func checkFunctions(parsed *gojq.Query, mayReadNow bool) error {
	var failed error
	eachFunc(reflect.ValueOf(parsed), func(f *gojq.Func) {
		if f.Name == "now" && len(f.Args) == 0 {
			if !mayReadNow {
				failed = fmt.Errorf("now may not be used in a selector: nothing wakes the object when time passes; use a delay")
			}
			f.Name = nowVariable
			return
		}
		if why := impure[f.Name]; why != "" {
			failed = fmt.Errorf("%s may not be used: %s", f.Name, why)
		}
	})
	return failed
}

var funcType = reflect.TypeFor[*gojq.Func]()

// eachFunc calls visit for every function call in a parsed program.
func eachFunc(v reflect.Value, visit func(*gojq.Func)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Type() == funcType {
			visit(v.Interface().(*gojq.Func))
		}
		eachFunc(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			eachFunc(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachFunc(v.Field(i), visit)
		}
	}
}

// results runs the program through jq and returns every non-null result.
func (q *query) results(v *view) []any {
	input := v.asJSON()
	if input == nil {
		return nil
	}
	now := float64(v.now.UnixNano()) / float64(time.Second)
	iter := q.code.Run(input, now)
	var out []any
	for {
		result, ok := iter.Next()
		if !ok {
			return out
		}
		if _, failed := result.(error); failed || len(out) == mostResults {
			return nil
		}
		if result != nil {
			out = append(out, result)
		}
	}
}

// exists reports whether there is any non-null result.
func (q *query) exists(v *view) bool {
	if q.native != nil {
		return q.native.exists(v.object)
	}
	return len(q.results(v)) > 0
}

// any reports whether test holds for any result that is a string, a boolean or
// a number.
func (q *query) any(v *view, test func(string) bool) bool {
	if q.native != nil && q.native.any != nil {
		return q.native.any(v.object, test)
	}
	for _, result := range q.results(v) {
		if text, ok := scalar(result); ok && test(text) {
			return true
		}
	}
	return false
}

// first returns the first string result.
func (q *query) first(v *view) (text string, ok bool) {
	keep := func(s string) bool { text, ok = s, true; return true }
	if q.native != nil && q.native.any != nil {
		q.native.any(v.object, keep)
		return text, ok
	}
	if all := q.results(v); len(all) > 0 {
		text, ok = all[0].(string)
	}
	return text, ok
}

// scalar is the text of a JSON string, boolean or number.
func scalar(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case int:
		return strconv.Itoa(value), true
	case float64:
		text, err := json.Marshal(value)
		return string(text), err == nil
	case fmt.Stringer: // *big.Int
		return value.String(), true
	}
	return "", false
}

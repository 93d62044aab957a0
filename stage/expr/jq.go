package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/google/cel-go/common/types/ref"
	"github.com/itchyny/gojq"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Query is a compiled jq program on an object. Its results are strings:
// booleans and numbers stand as they do in JSON; objects and arrays count for
// "exists" but equal no string; null counts for nothing. A jq error makes the
// whole result empty, so ".status.conditions[]" on an object without conditions
// is simply absent.
//
// KWOK never matches a number that jq did not make itself ("3" In ["3"] on
// .spec.replicas is false there, because such numbers arrive as floats); here a
// number equals its JSON text.
type Query struct {
	text   string
	Native *native
	code   *gojq.Code
}

// View is the object under decision; its JSON and its CEL form are made once and
// only if asked for.
type View struct {
	Object   metav1.Object
	json     any
	cel      ref.Val
	Now      time.Time
	Exceeded error // an expression that was evaluated does too much

	// What chance is keyed by.
	Seed   uint64
	UID    types.UID
	Played uint64
}

// asJSON returns the object as JSON values. Typed objects carry no apiVersion
// and kind, as in KWOK.
func (v *View) asJSON() any {
	if v.json == nil {
		if o, ok := v.Object.(*unstructured.Unstructured); ok {
			v.json = forJQ(o.Object)
		} else {
			v.json = toJSON(v.Object)
		}
	}
	return v.json
}

// forJQ copies a JSON value: jq knows no int64, and what it is given must not be
// shared with the cache.
func forJQ(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = forJQ(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = forJQ(item)
		}
		return out
	case int64:
		return int(v)
	case string, bool, nil, int, float64:
		return v
	}
	return toJSON(v)
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
// more does too much: "repeat(1)" must not stop the engine.
const mostResults = 10_000

// CompileJQ compiles a jq program for objects of one kind. mayReadNow allows
// the program to read the time; a selector may not, because nothing would wake
// the object when time alone makes it match.
func CompileJQ(text string, of Form, mayReadNow bool) (*Query, error) {
	// Before anything else: the time to parse and to check a program grows faster than its length.
	if len(text) > mostProgram {
		return nil, fmt.Errorf("jq %s: it has %d bytes; at most %d are allowed", limit.Quote(text), len(text), mostProgram)
	}
	parsed, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	if err := checkFunctions(parsed, mayReadNow); err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	q := &Query{text: text, Native: nativeFor(parsed, of)}
	if err := guarded(parsed, text); err != nil {
		return nil, fmt.Errorf("jq %s: %w", limit.Quote(text), err)
	}
	q.code, err = gojq.Compile(parsed,
		gojq.WithVariables([]string{nowVariable, jqWork}),
		gojq.WithFunction(jqGuard, 2, 4, guardFunction),
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

// checkFunctions rejects programs that read more than the object, and turns now into a variable, so that it is the
// time of the decision.
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

// mostSteps bounds the instructions of one run of a program; what each may cost is
// bounded by guards (jqwork.go).
const mostSteps = 1_000_000

// stepBudget is a context, as gojq takes one, that ends after a number of questions. A clock would make
// the answer depend on the machine.
type stepBudget struct{ left int }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (s *stepBudget) Done() <-chan struct{} {
	if s.left--; s.left < 0 {
		return closed
	}
	return nil
}

func (s *stepBudget) Deadline() (time.Time, bool) { return time.Time{}, false }

func (s *stepBudget) Value(any) any { return nil }

func (s *stepBudget) Err() error {
	if s.left < 0 {
		return fmt.Errorf("more than %d steps", mostSteps)
	}
	return nil
}

// Results runs the program through jq and returns every non-null result.
func (q *Query) Results(v *View) ([]any, error) {
	input := v.asJSON()
	if input == nil {
		return nil, errors.New("the object has no JSON form")
	}
	now := float64(v.Now.UnixNano()) / float64(time.Second)
	steps, work := &stepBudget{left: mostSteps}, &jqSpent{left: mostWork}
	iter := q.code.RunWithContext(steps, input, now, work)
	var out []any
	for {
		result, ok := iter.Next()
		failed, isError := result.(error)
		if ok && !isError {
			_ = work.spend(work.weigh(result))
		}
		if over := work.over; over != nil || steps.left < 0 || len(out) > mostResults {
			switch {
			case over != nil:
			case steps.left < 0:
				over = &limit.Exceeded{Reason: fmt.Sprintf("the program does too much: more than %d steps", mostSteps)}
			default:
				over = &limit.Exceeded{Reason: fmt.Sprintf("the program does too much: more than %d results", mostResults)}
			}
			v.Exceeded = over
			return nil, over
		}
		switch {
		case !ok:
			return out, nil
		case isError:
			return nil, failed
		case result != nil:
			out = append(out, result)
		}
	}
}

// HasProgram reports whether there is a jq program; a query for one label or annotation has none.
func (q *Query) HasProgram() bool { return q.code != nil }

// Interpreted reports whether jq runs the program, because there is no native form.
func (q *Query) Interpreted() bool { return q.code != nil && q.Native == nil }

// Exists reports whether there is any non-null result.
func (q *Query) Exists(v *View) bool {
	if q.Native != nil {
		return q.Native.exists(v.Object)
	}
	all, _ := q.Results(v)
	return len(all) > 0
}

// In reports whether any result that is a string, a boolean or a number is one
// of values.
func (q *Query) In(v *View, values []string) bool {
	if q.Native != nil {
		return q.Native.in(v.Object, values)
	}
	all, _ := q.Results(v)
	for _, result := range all {
		for _, want := range values {
			if equals(result, want) {
				return true
			}
		}
	}
	return false
}

// First returns the first result. An error of the program is no result, as in
// KWOK: it is how a program says that a field is not there.
func (q *Query) First(v *View) Value {
	got, _ := q.Read(v)
	return got
}

// Read is first, and says why a program failed on what is there. That it met with null is how it says
// that a field is not there (".metadata.annotations.at | tonumber"). A plain path, which is native, leads to
// something or to nothing.
func (q *Query) Read(v *View) (Value, error) {
	if q.Native != nil {
		return q.Native.first(v.Object), nil
	}
	all, err := q.Results(v)
	switch {
	case err != nil && !ofNothing.MatchString(err.Error()):
		return Value{}, err
	case len(all) > 0:
		return valueOf(all[0]), nil
	}
	return Value{}, nil
}

// ofNothing finds null among the operands that an error of gojq shows.
var ofNothing = regexp.MustCompile(`: null($| and )| and null$`)

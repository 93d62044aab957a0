package render

import (
	"errors"
	"fmt"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// A template comes from a user and reads objects of other users, so what one
// rendering may cost is bounded: every iteration and every call of another
// template is a tick, every function pays for what it takes and gives.

const (
	// mostSpent is what one rendering may spend: one unit is a tick, a value, or
	// 16 bytes of text.
	mostSpent = 2 << 20
	// tickCost makes mostSpent about 130,000 iterations.
	tickCost = 16
	// mostRandom is how many characters or bytes may be drawn at once.
	mostRandom = 1 << 16

	tick = "tick__"
)

const tooMuch = "the template does too much"

func (s *session) spend(n int) error {
	if s.spent += n; s.spent > mostSpent || n < 0 {
		return &limit.Exceeded{Reason: tooMuch + ": a loop or a text in it grows too large"}
	}
	return nil
}

func (s *session) tick() (string, error) { return "", s.spend(tickCost) }

// bound puts a tick where a template can come to the same place again: into
// loops and into templates that others call.
func (s *session) bound(of *template.Template) error {
	trees, err := parse.Parse(tick, "{{"+tick+"}}", "", "", map[string]any{tick: s.tick})
	if err != nil {
		return err
	}
	mark := trees[tick].Root.Nodes[0]
	for _, t := range of.Templates() {
		if t.Tree != nil && t.Root != nil {
			boundList(t.Root, mark)
			t.Root.Nodes = slices.Insert(t.Root.Nodes, 0, mark.Copy())
		}
	}
	return nil
}

func boundList(list *parse.ListNode, mark parse.Node) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			boundList(n.List, mark)
			boundList(n.ElseList, mark)
			n.List.Nodes = slices.Insert(n.List.Nodes, 0, mark.Copy())
		case *parse.IfNode:
			boundList(n.List, mark)
			boundList(n.ElseList, mark)
		case *parse.WithNode:
			boundList(n.List, mark)
			boundList(n.ElseList, mark)
		}
	}
}

// guarded is the function f of a name with a price, most of which is paid before it is
// called. What goes over the budget panics; the template package makes an error of that.
func (s *session) guarded(name string, f any) any {
	if more := ahead[name]; more != nil {
		return s.guardedSlowly(f, more)
	}
	if quick := s.guardedQuickly(f); quick != nil {
		return quick
	}
	return s.guardedSlowly(f, nil)
}

// guardedSlowly is guarded for any function. more, if set, returns what a call costs in addition to its arguments
// and its result.
func (s *session) guardedSlowly(f any, more func(*session, []reflect.Value) int) any {
	function := reflect.ValueOf(f)
	return reflect.MakeFunc(function.Type(), func(args []reflect.Value) []reflect.Value {
		cost := 1
		for _, a := range args {
			cost += s.weightOf(a, 0)
		}
		s.must(s.spend(cost))
		if more != nil {
			s.must(s.spend(more(s, args)))
		}
		var out []reflect.Value
		if function.Type().IsVariadic() {
			out = function.CallSlice(args)
		} else {
			out = function.Call(args)
		}
		s.must(s.spend(s.weightOf(out[0], 0)))
		return out
	}).Interface()
}

func (s *session) must(err error) {
	if err != nil {
		panic(err)
	}
}

// weightOf is how much there is to a value. It stops where the budget would.
func (s *session) weightOf(v reflect.Value, depth int) int {
	if depth > limit.Depth {
		s.must(&limit.Exceeded{Reason: "the template nests values too deeply, or makes one that holds itself"})
	}
	switch v.Kind() {
	case reflect.String:
		return 1 + v.Len()/16
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return 1
		}
		return s.weightOf(v.Elem(), depth)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 1 + v.Len()/16
		}
		return s.weightOfEach(v.Len(), func(i int) int { return s.weightOf(v.Index(i), depth+1) })
	case reflect.Map:
		keys := v.MapRange()
		return s.weightOfEach(v.Len(), func(int) int {
			keys.Next()
			return s.weightOf(keys.Key(), depth+1) + s.weightOf(keys.Value(), depth+1)
		})
	}
	return 1
}

func (s *session) weightOfEach(n int, weight func(i int) int) int {
	sum := 1
	for i := range n {
		if sum += weight(i); s.spent+sum > mostSpent {
			return sum
		}
	}
	return sum
}

// boundFunctions are functions that make much of little.
func (s *session) boundFunctions() template.FuncMap {
	until := func(start, stop, step int) []int {
		if step == 0 || start < stop && step < 0 || start > stop && step > 0 {
			return []int{}
		}
		notLonger(max(start, stop), min(start, stop), step)
		out := []int{}
		for i := start; i < stop && step > 0 || i > stop && step < 0; i += step {
			out = append(out, i)
		}
		return out
	}
	indent := func(spaces int, text string) string {
		notMore(spaces, strings.Count(text, "\n")+1)
		pad := strings.Repeat(" ", spaces)
		return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
	}
	return template.FuncMap{
		"until": func(n int) []int {
			if n < 0 {
				return until(0, n, -1)
			}
			return until(0, n, 1)
		},
		"untilStep": until,
		"seq":       func(params ...int) string { return sequence(until, params) },
		"repeat": func(n int, text string) string {
			notMore(n, len(text))
			return strings.Repeat(text, n)
		},
		"indent":  indent,
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		// Go's own, named here so that they pay too.
		"print":    fmt.Sprint,
		"printf":   fmt.Sprintf,
		"println":  fmt.Sprintln,
		"html":     template.HTMLEscaper,
		"js":       template.JSEscaper,
		"urlquery": template.URLQueryEscaper,
	}
}

// sequence is sprig's seq, which follows the command of that name.
func sequence(until func(start, stop, step int) []int, params []int) string {
	from, by, to := 1, 0, 0
	switch len(params) {
	case 1:
		to = params[0]
	case 2:
		from, to = params[0], params[1]
	case 3:
		from, by, to = params[0], params[1], params[2]
	default:
		return ""
	}
	if by == 0 && len(params) < 3 {
		by = 1
		if to < from {
			by = -1
		}
	}
	if by > 0 {
		to++
	} else {
		to--
	}
	return strings.Trim(fmt.Sprint(until(from, to, by)), "[]")
}

func notLonger(high, low, step int) {
	distance := uint64(high) - uint64(low)
	if step < 0 {
		step = -step
	}
	if step <= 0 || distance/uint64(step) > limit.Items {
		panic(&limit.Exceeded{Reason: fmt.Sprintf("the template makes a list of more than %d numbers", limit.Items)})
	}
}

// notMore rejects a repetition that would be larger than any output.
func notMore(n, size int) {
	if n < 0 {
		panic(errors.New("a negative count"))
	}
	if size > 0 && n > mostOutput/size {
		panic(&limit.Exceeded{Reason: fmt.Sprintf("the template makes a text of more than %d bytes", mostOutput)})
	}
}

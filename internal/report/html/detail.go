package html

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

type (
	// detailView is the detail of one step.
	detailView struct {
		Facts []factView
		Diffs []diffView
		Note  string
	}
	factView struct{ Name, Value string }
	diffView struct {
		Title  string
		Fields []fieldView
		More   string
	}
	fieldView struct {
		report.Field
		Class string
	}
)

func detailOf(r *report.Run, s *report.Step, z size) *detailView {
	d := &detailView{}
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			d.Facts = append(d.Facts, factView{name, clean(value, 300)})
		}
	}
	add("step", strings.Join([]string{string(s.Kind), s.Verb, s.Type, s.Subresource}, " "))
	add("actor", s.Actor)
	add("object", s.Object.String())
	add("UID", s.UID)
	add("query", s.Query)
	if s.Code != 0 {
		add("answer", strconv.Itoa(s.Code)+" "+s.Reply)
	}
	if s.Revision != 0 {
		add("revision", revisions(&s.Step))
	}
	if s.IsWrite() && s.Guarded {
		add("precondition", "the revision or UID on which it was decided, so that the API can reject it")
	} else if s.Wrote() {
		add("precondition", "none")
	}
	if s.WokenBy != nil {
		by := &r.Steps[*s.WokenBy]
		value := fmt.Sprintf("step %d: %s %s %s", by.N, by.Kind, strings.TrimSpace(by.Verb+by.Type), by.Object)
		if r.Inferred {
			value = "inferred: " + value
		}
		add("woken by", value)
	}
	for i, b := range s.Caches {
		if i == z.facts {
			break
		}
		add("cache", cacheText(b))
	}
	add("truth", "@"+strconv.FormatInt(s.Truth, 10))
	add("fault", s.Fault)
	add("note", s.Note)
	add("causes", stepList(s.Causes))
	for _, x := range s.Diffs {
		d.Diffs = append(d.Diffs, diffOf(x, s.Actor, z.fields))
	}
	if len(d.Diffs) == 0 && (s.Wrote() || s.Kind == history.Frame && s.Type != "BOOKMARK") {
		d.Note = "The record does not contain the object at this step."
	}
	return d
}

func revisions(s *history.Step) string {
	switch {
	case !s.Wrote():
		return "@" + strconv.FormatInt(s.Revision, 10)
	case s.Before == 0:
		return fmt.Sprintf("@%d, new", s.Revision)
	}
	return fmt.Sprintf("@%d, before @%d", s.Revision, s.Before)
}

func cacheText(b report.CacheState) string {
	text := b.Resource
	if b.Namespace != "" {
		text += " in " + b.Namespace
	}
	if b.Selector != "" {
		text += " with " + b.Selector
	}
	if b.Reached == 0 {
		text += ": nothing yet"
	} else {
		text += fmt.Sprintf(": @%d", b.Reached)
	}
	if b.Behind > 0 {
		text += fmt.Sprintf("; has not observed %s: %s", plural(b.Behind, "write"), stepList(b.Unseen))
	}
	return text
}

func stepList(steps []int) string {
	if len(steps) == 0 {
		return ""
	}
	var b strings.Builder
	for i, n := range steps {
		if i == 20 {
			b.WriteString(" and more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "step %d", n)
	}
	return b.String()
}

func diffOf(x report.Diff, actor string, most int) diffView {
	v := diffView{}
	what := clean(x.Object.String(), 300)
	span := fmt.Sprintf("@%d → @%d", x.From, x.To)
	if x.From == 0 {
		span = fmt.Sprintf("nothing → @%d", x.To)
	}
	switch x.Of {
	case report.DiffTruth:
		v.Title = "the truth: " + what + " " + span
	case report.DiffCache:
		v.Title = "cache of " + clean(actor, 100) + ": " + what + " " + span
	default:
		v.Title = "cache of " + clean(actor, 100) + " → the truth: " + what + " " + span
	}
	for i, f := range x.Fields {
		if i == most {
			x.More += len(x.Fields) - i
			break
		}
		class := map[string]string{"+": "add", "-": "del", "~": "mod"}[f.Op]
		v.Fields = append(v.Fields, fieldView{f, class})
	}
	switch {
	case x.More > 0:
		v.More = plural(x.More, "field") + " left out"
	case len(x.Fields) == 0 && x.Of == report.DiffTruth && x.To != 0:
		v.More = "only the revision differs"
	}
	return v
}

package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// The parameters of oracles. The tag "says" describes a parameter; "must" marks a required one.

// owner is an object that controls pods.
type owner struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o owner) owner() invariant.Owner {
	return invariant.Owner{Kind: o.Kind, Namespace: orDefault(o.Namespace), Name: o.Name}
}

func (o owner) check(c *checker, a at) {
	for _, one := range []struct{ name, value, example string }{{"kind", o.Kind, "ReplicaSet"}, {"name", o.Name, "web"}} {
		if one.value == "" {
			c.report(a.field(one.name), "", "is missing; write one such as %s", one.example)
		}
	}
}

// orDefault returns the namespace default if none is given, as kubectl does.
func orDefault(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

type podCount struct {
	Owner owner `json:"owner" must:"true" says:"the controller of the pods: kind, namespace (default: default) and name"`
	Count *int  `json:"count" must:"true" says:"the number of pods"`
}

func (p *podCount) check(c *checker, with at) {
	p.Owner.check(c, with.field("owner"))
	if *p.Count < 0 {
		c.report(with.field("count"), fmt.Sprint(*p.Count), "must not be negative")
	}
}

type podLabel struct {
	Owner owner  `json:"owner" must:"true" says:"the controller of the pods: kind, namespace (default: default) and name"`
	Label string `json:"label" must:"true" says:"the name of a label, such as batch.kubernetes.io/job-completion-index"`
}

func (p *podLabel) check(c *checker, with at) {
	p.Owner.check(c, with.field("owner"))
	c.nonEmpty(with.field("label"), p.Label)
}

type object struct {
	Resource  string `json:"resource" must:"true" says:"the resource with its group, as for kubectl: pods, jobs.batch"`
	Namespace string `json:"namespace" says:"the namespace of the object; default: default, if the resource is namespaced"`
	Name      string `json:"name" must:"true" says:"the name of the object"`
}

func (p *object) check(c *checker, with at) {
	if c.resource(with.field("resource"), p.Resource) {
		p.Namespace = c.namespace(with.field("namespace"), p.Resource, p.Namespace)
	}
	c.nonEmpty(with.field("name"), p.Name)
}

type condition struct {
	object `json:",inline"`
	Type   string `json:"type" must:"true" says:"the type of the condition, such as Complete"`
	Status string `json:"status" says:"True, False or Unknown; default: True"`
}

func (p *condition) status() string {
	if p.Status == "" {
		return "True"
	}
	return p.Status
}

func (p *condition) check(c *checker, with at) {
	p.object.check(c, with)
	c.nonEmpty(with.field("type"), p.Type)
	if all := []string{"True", "False", "Unknown"}; !slices.Contains(all, p.status()) {
		c.report(with.field("status"), p.Status, "must be %s", oneOf(all))
	}
}

type field struct {
	object `json:",inline"`
	Path   string          `json:"path" must:"true" says:"the path of the field, such as status.succeeded, spec.containers[0].image or metadata.labels[app.kubernetes.io/name]"`
	Value  json.RawMessage `json:"value" must:"true" says:"the expected value; null: the field is absent"`
}

func (p *field) value() (out any) {
	_ = json.Unmarshal(p.Value, &out) // the parser has checked it
	return out
}

func (p *field) check(c *checker, with at) {
	p.object.check(c, with)
	if err := invariant.CheckPath(p.Path); err != nil {
		c.report(with.field("path"), p.Path, "%v", err)
	}
}

type none struct{}

func (*none) check(*checker, at) {}

type hotLoop struct {
	Limit  *int             `json:"limit" says:"the number of requests; default: 50"`
	Window *metav1.Duration `json:"window" says:"a duration; default: 10s"`
}

func (p *hotLoop) limit() int {
	if p.Limit == nil {
		return 50
	}
	return *p.Limit
}

func (p *hotLoop) window() time.Duration {
	if p.Window == nil {
		return 10 * time.Second
	}
	return p.Window.Duration
}

func (p *hotLoop) check(c *checker, with at) {
	if p.limit() < 1 {
		c.report(with.field("limit"), fmt.Sprint(p.limit()), "must be at least 1")
	}
	c.duration(with.field("window"), p.Window, 10*time.Second)
}

type happened struct {
	Kind     string `json:"kind" must:"true" says:"the kind of the step: start, crash, request, answer, frame, cut, time or fault"`
	Actor    string `json:"actor" says:"the name of a client; default: any client"`
	Resource string `json:"resource" says:"the resource with its group, as for kubectl; default: any"`
}

func (p *happened) kind() history.Kind { return history.Kind(p.Kind) }

var stepsOfRecord = []history.Kind{
	history.Start, history.Crash, history.Request, history.Answer, history.Frame, history.Cut, history.Time, history.Fault,
}

func (p *happened) check(c *checker, with at) {
	if !slices.Contains(stepsOfRecord, p.kind()) {
		var names []string
		for _, k := range stepsOfRecord {
			names = append(names, string(k))
		}
		c.report(with.field("kind"), p.Kind, "must be %s", oneOf(names))
	}
	c.actor(with.field("actor"), p.Actor)
	if p.Resource != "" {
		c.resource(with.field("resource"), p.Resource)
	}
}

type wrote struct {
	Actor    string `json:"actor" says:"the name of a client, or user for the scenario's steps; default: any client"`
	Verb     string `json:"verb" says:"create, update, patch, delete or deletecollection; default: any"`
	Resource string `json:"resource" says:"the resource with its group, as for kubectl; default: any"`
}

func (p *wrote) check(c *checker, with at) {
	if all := []string{"create", "update", "patch", "delete", "deletecollection"}; p.Verb != "" && !slices.Contains(all, p.Verb) {
		c.report(with.field("verb"), p.Verb, "must be %s", oneOf(all))
	}
	if !slices.Contains(reserved, p.Actor) && !slices.Contains(c.s.Controllers, p.Actor) {
		c.actor(with.field("actor"), p.Actor)
	}
	if p.Resource != "" {
		c.resource(with.field("resource"), p.Resource)
	}
}

type stale struct {
	Actor string `json:"actor" says:"the name of a client; default: any client"`
}

func (p *stale) check(c *checker, with at) { c.actor(with.field("actor"), p.Actor) }

// another has the fields of an invariant.
type another struct {
	Name   string          `json:"name" says:"a sentence for reports"`
	CEL    string          `json:"cel" says:"a CEL expression; or"`
	Oracle string          `json:"oracle" says:"a nested oracle"`
	With   json.RawMessage `json:"with" says:"the parameters of the nested oracle"`

	other bound
}

func (p *another) check(c *checker, with at) {
	p.other = c.bind(with, &v1alpha1.Invariant{Name: p.Name, CEL: p.CEL, Oracle: p.Oracle, With: p.With}, inNever)
}

// never are the parameters of Never, which holds while the other invariant does not.
type never struct{ another }

func (p *never) bind() bound {
	now, _ := p.other.make()
	return steady(invariant.Never(now[0]))
}

// stays are the parameters of Stays: the other invariant must not be violated after it has held. It follows the run.
type stays struct{ another }

func (p *stays) bind() bound {
	return bound{make: func() (now, ends []invariant.Invariant) {
		now, _ = p.other.make()
		return []invariant.Invariant{invariant.Stays(now[0])}, nil
	}}
}

// follower names an object that an oracle follows from its creation to the end of the run.
type follower struct {
	Namespace string           `json:"namespace" says:"the namespace of the object; default: default"`
	Name      string           `json:"name" must:"true" says:"the name of the object"`
	Within    *metav1.Duration `json:"within" says:"the time after the last step in which the final state must be reached; default: 30s"`

	ends time.Duration
}

func (p *follower) check(c *checker, with at) {
	c.nonEmpty(with.field("name"), p.Name)
	p.ends = c.duration(with.field("within"), p.Within, DefaultWithin)
}

func (p *follower) bind(of func(invariant.Owner) ([]invariant.Invariant, invariant.Invariant), kind string) bound {
	o := invariant.Owner{Kind: kind, Namespace: orDefault(p.Namespace), Name: p.Name}
	return bound{within: p.ends, make: func() (now, ends []invariant.Invariant) {
		now, end := of(o)
		return now, []invariant.Invariant{end}
	}}
}

func (c *checker) nonEmpty(a at, text string) {
	if text == "" {
		c.report(a, "", "must not be empty")
	}
}

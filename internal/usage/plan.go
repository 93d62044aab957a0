package usage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage/expr"
)

// The annotations of a pod that define the usage of each of its containers, if no rule does.
const (
	CPUAnnotation    = "kwok.x-k8s.io/usage-cpu"
	MemoryAnnotation = "kwok.x-k8s.io/usage-memory"
)

// annotations are the annotations by resource.
var annotations = []struct {
	resource   corev1.ResourceName
	annotation string
	usage      resource.Quantity // without the annotation
}{
	{corev1.ResourceCPU, CPUAnnotation, resource.MustParse("1m")},
	{corev1.ResourceMemory, MemoryAnnotation, resource.MustParse("1Mi")},
}

// Rule is the entry of an object that applies to a container.
type Rule struct {
	// Object is printed in errors: the kind and name of the object.
	Object fmt.Stringer
	// Usage is the usage by resource. A resource that it does not contain has the usage of the annotations.
	Usage map[string]v1alpha1.ResourceUsageValue
}

// View is what a Plan reads.
type View struct {
	// Now is the moment of the usage.
	Now time.Time
	// Rule returns the entry for a container, nil if none applies.
	Rule func(namespace, pod, container string) *Rule
	// Node returns a node, nil if it does not exist. It is called for expressions that read the node.
	Node func(name string) *corev1.Node
	// Pods returns the pods of a node. It is called for expressions that read the usage of a node.
	Pods func(node string) []*corev1.Pod
}

// Plan computes usage at one moment. It never modifies an object.
type Plan struct {
	compiler *Compiler
	totals   *Totals
	view     View
	// active are the usages that are being computed, to detect expressions that read their own result.
	active []usageKey
}

type usageKey struct {
	uid       apitypes.UID
	container string
	resource  corev1.ResourceName
}

// NewPlan returns a Plan. It is not safe for concurrent use, and neither are its compiler and totals.
func NewPlan(c *Compiler, t *Totals, v View) *Plan { return &Plan{compiler: c, totals: t, view: v} }

// ContainerUsage is the usage of a container.
type ContainerUsage struct {
	Name  string
	Usage corev1.ResourceList
}

// Pod returns the usage of the running containers of a pod. It contains CPU, memory, and the other resources of the containers' rules.
func (p *Plan) Pod(pod *corev1.Pod) ([]ContainerUsage, error) {
	running := Running(pod)
	out := make([]ContainerUsage, 0, len(running))
	for _, c := range running {
		usage, err := p.container(pod, c.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, ContainerUsage{c.Name, usage})
	}
	return out, nil
}

func (p *Plan) container(pod *corev1.Pod, container string) (corev1.ResourceList, error) {
	rule := p.view.Rule(pod.Namespace, pod.Name, container)
	names := []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory)}
	if rule != nil {
		names = append(names, slices.Sorted(maps.Keys(rule.Usage))...)
	}
	usage := make(corev1.ResourceList, len(names))
	for _, name := range names {
		name := corev1.ResourceName(name)
		if _, ok := usage[name]; ok {
			continue
		}
		q, err := p.resource(rule, pod, container, name)
		if err != nil {
			return nil, err
		}
		usage[name] = q
	}
	return usage, nil
}

// resource computes one usage: the rule's value, its expression, the annotation, a constant.
func (p *Plan) resource(rule *Rule, pod *corev1.Pod, container string, name corev1.ResourceName) (resource.Quantity, error) {
	if rule != nil {
		switch v := rule.Usage[string(name)]; {
		case v.Value != nil && v.Value.Sign() < 0:
			return resource.Quantity{}, fmt.Errorf("%s: usage of %s: %s is negative", rule.Object, name, v.Value)
		case v.Value != nil:
			return *v.Value, nil
		case v.Expression != nil:
			q, err := p.evaluate(*v.Expression, pod, container, name)
			if err != nil {
				return q, fmt.Errorf("%s: usage of %s: expression %w", rule.Object, name, oneLine(err))
			}
			return q, nil
		}
	}
	for _, a := range annotations {
		if a.resource != name {
			continue
		}
		text, ok := pod.Annotations[a.annotation]
		if !ok {
			return a.usage, nil
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return q, fmt.Errorf("annotation %s: %q is not a quantity of at least 0", a.annotation, text)
		}
		return q, nil
	}
	return resource.Quantity{}, nil
}

func (p *Plan) evaluate(text string, pod *corev1.Pod, container string, name corev1.ResourceName) (q resource.Quantity, err error) {
	program := p.compiler.compile(source{v1alpha1.MetricOfContainer, text})
	if program.err != nil {
		return q, program.err
	}
	key := usageKey{pod.UID, container, name}
	if slices.Contains(p.active, key) {
		return q, fmt.Errorf("reads the usage of %s of container %q of pod %s/%s, which it defines", name, container, pod.Namespace, pod.Name)
	}
	p.active = append(p.active, key)
	defer func() { p.active = p.active[:len(p.active)-1] }()
	out, _, err := program.Eval(&input{plan: p, pod: pod, container: container, resource: name})
	if err != nil {
		return q, err
	}
	return quantityOf(name, out)
}

// input resolves the variables of an expression when it reads them.
type input struct {
	plan      *Plan
	pod       *corev1.Pod
	container string
	resource  corev1.ResourceName
}

// Parent implements interpreter.Activation.
func (in *input) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (in *input) ResolveName(name string) (any, bool) {
	switch name {
	case celPod:
		return expr.CELValue(in.pod), true
	case celNode:
		node := in.plan.view.Node(in.pod.Spec.NodeName)
		if node == nil {
			return types.NewErr("node %q does not exist", in.pod.Spec.NodeName), true
		}
		return expr.CELValue(node), true
	case celContainer:
		for _, list := range [][]corev1.Container{in.pod.Spec.Containers, in.pod.Spec.InitContainers} {
			for i := range list {
				if list[i].Name == in.container {
					return expr.CELValue(&list[i]), true
				}
			}
		}
	}
	return in.plan.resolveName(name, in.draw)
}

// resolveName resolves the names that all expressions have. draw returns the random number of the expression.
func (p *Plan) resolveName(name string, draw func() float64) (any, bool) {
	switch name {
	case celPlan:
		return planValue{plan: p}, true
	case expr.CELNow:
		return types.Timestamp{Time: p.view.Now}, true
	case expr.CELRand:
		return types.Double(draw()), true
	}
	return nil, false
}

// draw returns the random number of one usage at one moment.
func (in *input) draw() float64 {
	return expr.Draw(0, in.pod.UID, in.container+"/"+string(in.resource), uint64(in.plan.view.Now.UnixNano()), expr.ForExpression)
}

// usageOf implements Usage.
func (p *Plan) usageOf(object any, name, container string) (float64, error) {
	return p.sum(object, container, func(pod *corev1.Pod, c Container) (float64, error) {
		q, err := p.resource(p.view.Rule(pod.Namespace, pod.Name, c.Name), pod, c.Name, corev1.ResourceName(name))
		return q.AsApproximateFloat64(), err
	})
}

// sum adds a value of the running containers of a pod or a node; container, if set, is the only container of a pod that counts.
func (p *Plan) sum(object any, container string, value func(*corev1.Pod, Container) (float64, error)) (float64, error) {
	var pods []*corev1.Pod
	switch o := object.(type) {
	case corev1.Pod:
		pods = []*corev1.Pod{&o}
	case corev1.Node:
		pods = slices.SortedFunc(slices.Values(p.view.Pods(o.Name)), func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	default:
		return 0, fmt.Errorf("usage of a %T: want a pod or a node", object)
	}
	total := 0.0
	for _, pod := range pods {
		for _, c := range Running(pod) {
			if container != "" && c.Name != container {
				continue
			}
			n, err := value(pod, c)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

package usage

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// started counts the containers that have started on a node.
type started struct {
	// deleted is the sum of the containers of pods that do not exist any more.
	deleted int64
	// containers are the starts of the containers of the pods that exist.
	containers map[containerKey]int64
}

type containerKey struct {
	pod       apitypes.UID
	container string
}

// startedContainers counts the starts of containers on a node up to now, restarts included. The number never falls: the containers of deleted
// pods remain in it. Containers of pods that no observation has seen are not in it.
func (t *Totals) startedContainers(node apitypes.UID, pods []*corev1.Pod) int64 {
	now := map[containerKey]int64{}
	for _, pod := range pods {
		countStarts(pod, now)
	}
	s := t.started[node]
	if s == nil {
		s = &started{}
	}
	for key, n := range s.containers {
		if _, exists := now[key]; exists {
			now[key] = max(now[key], n)
		} else {
			s.deleted += n
		}
	}
	s.containers = now
	if t.started == nil {
		t.started = map[apitypes.UID]*started{}
	}
	t.started[node] = s
	sum := s.deleted
	for _, n := range now {
		sum += n
	}
	return sum
}

// countStarts adds the containers of a pod that have started at least once. Stages may set the phase without statuses of containers; then each
// container of the pod has started once.
func countStarts(pod *corev1.Pod, counts map[containerKey]int64) {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range statuses {
		if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0 {
			counts[containerKey{pod.UID, c.Name}] = int64(c.RestartCount) + 1
		}
	}
	if len(statuses) > 0 || pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "" {
		return
	}
	for i := range pod.Spec.Containers {
		counts[containerKey{pod.UID, pod.Spec.Containers[i].Name}] = 1
	}
}

// startedFunction defines StartedContainersTotal of a node or its name, as a function and as a method. KWOK's older name begins with a
// small letter.
func startedFunction() []cel.EnvOption {
	const internal = "started__"
	expand := func(eh parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		if target != nil && target.Kind() != ast.UnspecifiedExprKind {
			args = []ast.Expr{target}
		}
		return eh.NewCall(internal, eh.NewIdent(celPlan), args[0]), nil
	}
	call := func(plan, node ref.Val) ref.Val {
		p, ok := plan.Value().(*Plan)
		if !ok {
			return types.NewErr("StartedContainersTotal: no plan")
		}
		n, err := p.startedContainers(node.Value())
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(n)
	}
	options := []cel.EnvOption{
		cel.Function(internal, cel.Overload(internal+"node", []*cel.Type{cel.DynType, cel.DynType}, cel.DoubleType, cel.BinaryBinding(call))),
	}
	for _, name := range []string{"StartedContainersTotal", "startedContainersTotal"} {
		options = append(options, cel.Macros(cel.GlobalMacro(name, 1, expand), cel.ReceiverMacro(name, 0, expand)))
	}
	return options
}

// startedContainers implements StartedContainersTotal.
func (p *Plan) startedContainers(object any) (int64, error) {
	var node *corev1.Node
	switch o := object.(type) {
	case corev1.Node:
		node = &o
	case string:
		if node = p.view.Node(o); node == nil {
			return 0, fmt.Errorf("StartedContainersTotal: node %q is unknown", o)
		}
	default:
		return 0, fmt.Errorf("StartedContainersTotal of a %T: want a node or its name", object)
	}
	return p.totals.startedContainers(node.UID, p.view.Pods(node.Name)), nil
}

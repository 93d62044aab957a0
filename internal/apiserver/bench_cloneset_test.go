//go:build unix

package apiserver_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// createGated is the create of a CloneSet controller.
func createGated(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: kruise.ConditionInPlaceUpdateReady}}
	for _, label := range []string{kruise.LabelInstanceID, kruise.LabelRevision, kruise.LabelTemplateHash} {
		p.Labels[label] = "bench-x7"
	}
	p.Labels[kruise.LabelState] = string(kruise.StatePreparingNormal)
	p.Annotations = map[string]string{kruise.AnnotationStateSince: "2026-01-02T03:04:05Z"}
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "bench", UID: "bench", Controller: &yes, BlockOwnerDeletion: &yes}}
	return createPlaced(ctx, client, p)
}

// patchNormal sets the state Normal and the readiness gate, after the creation and after an update in place.
func patchNormal(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	return patchPod(ctx, client, p, "status", fmt.Sprintf(`"labels":{%q:%q},"annotations":{%q:"2026-01-02T03:04:06Z"}`, kruise.LabelState, kruise.StateNormal, kruise.AnnotationStateSince),
		`"status":{"conditions":[`+gate(corev1.ConditionTrue)+`]}`)
}

// patchUpdating starts an update in place.
func patchUpdating(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	return patchPod(ctx, client, p, "status", fmt.Sprintf(`"labels":{%q:%q,%q:"bench-y8",%q:"y8"},"annotations":{%q:"2026-01-02T03:04:07Z",%q:"{\"revision\":\"bench-y8\",\"containerImages\":{\"main\":\"nginx:2\"}}",%q:"{\"revision\":\"bench-y8\",\"updateTimestamp\":\"2026-01-02T03:04:07Z\",\"lastContainerStatuses\":{}}"}`,
		kruise.LabelState, kruise.StateUpdating, kruise.LabelRevision, kruise.LabelTemplateHash, kruise.AnnotationStateSince, kruise.AnnotationInPlaceGrace, kruise.AnnotationInPlaceState),
		`"status":{"conditions":[`+gate(corev1.ConditionFalse)+`,{"type":"Ready","status":"False","reason":"ReadinessGatesNotReady"}]}`)
}

// patchImage changes the image in place.
func patchImage(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	return patchPod(ctx, client, p, "", fmt.Sprintf(`"annotations":{%q:null,%q:"{\"revision\":\"bench-y8\",\"updateTimestamp\":\"2026-01-02T03:04:07Z\",\"lastContainerStatuses\":{\"main\":{\"imageID\":\"nginx\",\"containerID\":\"rehearse://main\"}}}"}`,
		kruise.AnnotationInPlaceGrace, kruise.AnnotationInPlaceState), `"spec":{"containers":[{"name":"main","image":"nginx:2"}]}`)
}

func gate(status corev1.ConditionStatus) string {
	return fmt.Sprintf(`{"type":%q,"status":%q,"reason":"","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}`, kruise.ConditionInPlaceUpdateReady, status)
}

func patchPod(ctx context.Context, client kubernetes.Interface, p *corev1.Pod, subresource, metadata, rest string) error {
	var to []string
	if subresource != "" {
		to = append(to, subresource)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,%s},%s}`, p.UID, metadata, rest)
	left, err := client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, to...)
	if err == nil {
		*p = *left
	}
	return err
}

// writeRestarted is the kubelet's write when the container runs the new image.
func writeRestarted(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	is := &p.Status.ContainerStatuses[0]
	is.Image, is.ImageID, is.ContainerID, is.RestartCount = "nginx:2", "nginx:2", "rehearse://main-2", 1
	is.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now())}}
	return putStatus(ctx, client, p)
}

// writeReady is the kubelet's write when the readiness gate is True again.
func writeReady(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	for i := range p.Status.Conditions {
		p.Status.Conditions[i].Status = corev1.ConditionTrue
	}
	return putStatus(ctx, client, p)
}

func putStatus(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	left, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	if err == nil {
		*p = *left
	}
	return err
}

// The same three changes as updates of the whole pod, as the controller of `up` sends them.
var (
	wholeUpdating = whole(corev1.ConditionFalse, true, func(p *corev1.Pod) {
		p.Labels[kruise.LabelState], p.Labels[kruise.LabelRevision], p.Labels[kruise.LabelTemplateHash] = string(kruise.StateUpdating), "bench-y8", "y8"
		p.Annotations[kruise.AnnotationInPlaceGrace] = `{"revision":"bench-y8","containerImages":{"main":"nginx:2"}}`
		p.Annotations[kruise.AnnotationInPlaceState] = `{"revision":"bench-y8","updateTimestamp":"2026-01-02T03:04:07Z"}`
	})
	wholeImage = whole("", false, func(p *corev1.Pod) {
		delete(p.Annotations, kruise.AnnotationInPlaceGrace)
		p.Spec.Containers[0].Image = "nginx:2"
	})
	wholeNormal = whole(corev1.ConditionTrue, true, func(p *corev1.Pod) {
		p.Labels[kruise.LabelState], p.Annotations[kruise.AnnotationStateSince] = string(kruise.StateNormal), "2026-01-02T03:04:08Z"
	})
)

// whole updates the whole pod; if it updates the status, it also sets the gate.
func whole(gate corev1.ConditionStatus, status bool, change func(*corev1.Pod)) podWrite {
	return func(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
		change(p)
		for i := range p.Status.Conditions {
			switch c := &p.Status.Conditions[i]; {
			case !status:
			case c.Type == kruise.ConditionInPlaceUpdateReady, c.Type == corev1.PodReady && gate == corev1.ConditionFalse:
				c.Status = gate
			}
		}
		p.ManagedFields = nil
		if status {
			return putStatus(ctx, client, p)
		}
		left, err := client.CoreV1().Pods(p.Namespace).Update(ctx, p, metav1.UpdateOptions{})
		if err == nil {
			*p = *left
		}
		return err
	}
}

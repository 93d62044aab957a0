package apiserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"
)

// BenchmarkManagedFields measures the managed fields of the write of a pod's status, with upstream's converter and with ours.
func BenchmarkManagedFields(b *testing.B) {
	upstream, _ := builtIn(b)
	for _, c := range []struct {
		name string
		with *writers
	}{
		{"upstream", newWriters(b, upstream, []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")})},
		{"ours", newWriters(b, newTypeConverter(upstream), []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")})},
	} {
		b.Run(c.name, func(b *testing.B) {
			pods := c.with.managers["v1"]
			created, err := pods.Update(&core.Pod{}, sent(b, createdPod()), "client")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				p := createdPod()
				p.Status = runningStatus()
				is := sent(b, p)
				is.ManagedFields = created.(*core.Pod).ManagedFields
				b.StartTimer()
				if _, err := pods.Update(created, is, "kubelet"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// createdPod returns a pod as the admission plugins leave it.
func createdPod() *corev1.Pod {
	mount := corev1.VolumeMount{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	tolerations := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
		{Key: corev1.TaintNodeUnreachable, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To[int64](300)},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a", CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)), Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "default", Tolerations: tolerations,
			Containers: []corev1.Container{{
				Name: "main", Image: "nginx", VolumeMounts: []corev1.VolumeMount{mount}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			}}}}},
		},
	}
}

func runningStatus() corev1.PodStatus {
	now := metav1.NewTime(time.Unix(1_700_000_001, 0))
	s := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, HostIP: "10.16.0.1", HostIPs: []corev1.HostIP{{IP: "10.16.0.1"}}, PodIP: "10.128.0.1", PodIPs: []corev1.PodIP{{IP: "10.128.0.1"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "nginx", ImageID: "nginx", ContainerID: "rehearse://main", Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return s
}

// sent returns a pod as the server decodes it from a request.
func sent(b *testing.B, p *corev1.Pod) *core.Pod {
	b.Helper()
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), p)
	if err != nil {
		b.Fatal(err)
	}
	o, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(core.SchemeGroupVersion), data)
	if err != nil {
		b.Fatal(err)
	}
	return o.(*core.Pod)
}

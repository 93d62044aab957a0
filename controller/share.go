package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mostSamples bounds what sharing itself may keep.
const mostSamples = 4096

// sharer lets pods that came from one template share the parts that are equal:
// of 100,000 pods of a hundred ReplicaSets all but a hundred then hold little
// more than their name, addresses and times. It changes nothing that can be
// read; shared parts are never written to, as nothing in the cache is.
type sharer struct {
	mu      sync.Mutex
	samples map[types.UID]*corev1.Pod
}

// pod takes over equal parts from an earlier pod of the same controller, or of
// the same namespace for pods without one.
func (s *sharer) pod(p *corev1.Pod) {
	key := types.UID(p.Namespace)
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		key = owner.UID
	}
	s.mu.Lock()
	sample := s.samples[key]
	if sample == nil {
		if s.samples == nil || len(s.samples) >= mostSamples {
			s.samples = map[types.UID]*corev1.Pod{}
		}
		s.samples[key] = p
	}
	s.mu.Unlock()
	if sample == nil || sample == p {
		return
	}
	shareMeta(&sample.ObjectMeta, &p.ObjectMeta)
	shareSpec(&sample.Spec, &p.Spec)
	shareStatus(&sample.Status, &p.Status)
}

// share makes *b be *a where the two are equal.
func share[T any](a, b *T) bool {
	if !equality.Semantic.DeepEqual(*a, *b) {
		return false
	}
	*b = *a
	return true
}

// shareEach shares the elements of two slices one by one with each.
func shareEach[T any](a, b []T, each func(a, b *T)) {
	for i := range min(len(a), len(b)) {
		each(&a[i], &b[i])
	}
}

// text shares strings.
func text[T ~string](a, b *T) {
	if *a == *b {
		*b = *a
	}
}

func shareMeta(a, b *metav1.ObjectMeta) {
	text(&a.GenerateName, &b.GenerateName)
	text(&a.Namespace, &b.Namespace)
	share(&a.Labels, &b.Labels)
	share(&a.Annotations, &b.Annotations)
	share(&a.OwnerReferences, &b.OwnerReferences)
	share(&a.Finalizers, &b.Finalizers)
}

func shareSpec(a, b *corev1.PodSpec) {
	text(&a.NodeName, &b.NodeName)
	text(&a.ServiceAccountName, &b.ServiceAccountName)
	text(&a.DeprecatedServiceAccount, &b.DeprecatedServiceAccount)
	text(&a.SchedulerName, &b.SchedulerName)
	text(&a.PriorityClassName, &b.PriorityClassName)
	text(&a.DNSPolicy, &b.DNSPolicy)
	text(&a.RestartPolicy, &b.RestartPolicy)
	share(&a.NodeSelector, &b.NodeSelector)
	share(&a.Affinity, &b.Affinity)
	share(&a.Tolerations, &b.Tolerations)
	share(&a.SecurityContext, &b.SecurityContext)
	share(&a.ImagePullSecrets, &b.ImagePullSecrets)
	share(&a.HostAliases, &b.HostAliases)
	share(&a.DNSConfig, &b.DNSConfig)
	share(&a.ReadinessGates, &b.ReadinessGates)
	share(&a.TopologySpreadConstraints, &b.TopologySpreadConstraints)
	share(&a.ResourceClaims, &b.ResourceClaims)
	share(&a.Overhead, &b.Overhead)
	share(&a.Priority, &b.Priority)
	share(&a.PreemptionPolicy, &b.PreemptionPolicy)
	share(&a.EnableServiceLinks, &b.EnableServiceLinks)
	share(&a.TerminationGracePeriodSeconds, &b.TerminationGracePeriodSeconds)
	share(&a.ActiveDeadlineSeconds, &b.ActiveDeadlineSeconds)
	// The name of the token volume is drawn for each pod, so volumes and
	// containers are rarely equal as a whole.
	if !share(&a.Volumes, &b.Volumes) {
		shareEach(a.Volumes, b.Volumes, func(a, b *corev1.Volume) { share(&a.VolumeSource, &b.VolumeSource) })
	}
	if !share(&a.InitContainers, &b.InitContainers) {
		shareEach(a.InitContainers, b.InitContainers, shareContainer)
	}
	if !share(&a.Containers, &b.Containers) {
		shareEach(a.Containers, b.Containers, shareContainer)
	}
}

func shareContainer(a, b *corev1.Container) {
	text(&a.Name, &b.Name)
	text(&a.Image, &b.Image)
	text(&a.WorkingDir, &b.WorkingDir)
	text(&a.TerminationMessagePath, &b.TerminationMessagePath)
	text(&a.TerminationMessagePolicy, &b.TerminationMessagePolicy)
	text(&a.ImagePullPolicy, &b.ImagePullPolicy)
	share(&a.Command, &b.Command)
	share(&a.Args, &b.Args)
	share(&a.Ports, &b.Ports)
	share(&a.EnvFrom, &b.EnvFrom)
	share(&a.Env, &b.Env)
	share(&a.Resources, &b.Resources)
	share(&a.ResizePolicy, &b.ResizePolicy)
	share(&a.VolumeDevices, &b.VolumeDevices)
	share(&a.LivenessProbe, &b.LivenessProbe)
	share(&a.ReadinessProbe, &b.ReadinessProbe)
	share(&a.StartupProbe, &b.StartupProbe)
	share(&a.Lifecycle, &b.Lifecycle)
	share(&a.SecurityContext, &b.SecurityContext)
	share(&a.RestartPolicy, &b.RestartPolicy)
	if !share(&a.VolumeMounts, &b.VolumeMounts) {
		shareEach(a.VolumeMounts, b.VolumeMounts, func(a, b *corev1.VolumeMount) { text(&a.MountPath, &b.MountPath) })
	}
}

func shareStatus(a, b *corev1.PodStatus) {
	text(&a.Phase, &b.Phase)
	text(&a.QOSClass, &b.QOSClass)
	text(&a.HostIP, &b.HostIP)
	share(&a.HostIPs, &b.HostIPs)
	shareEach(a.Conditions, b.Conditions, func(a, b *corev1.PodCondition) {
		text(&a.Type, &b.Type)
		text(&a.Status, &b.Status)
		text(&a.Reason, &b.Reason)
	})
	shareEach(a.InitContainerStatuses, b.InitContainerStatuses, shareContainerStatus)
	shareEach(a.ContainerStatuses, b.ContainerStatuses, shareContainerStatus)
}

func shareContainerStatus(a, b *corev1.ContainerStatus) {
	text(&a.Name, &b.Name)
	text(&a.Image, &b.Image)
	text(&a.ImageID, &b.ImageID)
	share(&a.Started, &b.Started)
}

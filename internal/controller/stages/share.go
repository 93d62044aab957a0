package stages

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

// smaller makes a pod small before it is cached, and fit for readers who do not know of each
// other: a quantity keeps its text when it is first asked for it, so that is done here
// (Size asks all that can keep it), before anybody else has the pod.
func (s *sharer) smaller(p *corev1.Pod) {
	withoutManagedFields(p)
	s.pod(p)
	_ = p.Size()
}

// pod takes over equal parts from an earlier pod of the same controller, or of
// the same namespace for pods without one. A pod that is being deleted will not
// be there for long.
func (s *sharer) pod(p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		return
	}
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

// sharePointer, shareList and shareMap are share where there mostly is nothing,
// which is seen without reflection.
func sharePointer[T any](a, b **T) {
	if *a != nil && *b != nil {
		share(a, b)
	}
}

func shareList[T any](a, b *[]T) bool {
	return len(*a) == len(*b) && (len(*a) == 0 || share(a, b))
}

func shareMap[M ~map[K]V, K comparable, V any](a, b *M) {
	if len(*a) == len(*b) && len(*a) > 0 {
		share(a, b)
	}
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
	shareMap(&a.Labels, &b.Labels)
	shareMap(&a.Annotations, &b.Annotations)
	shareList(&a.OwnerReferences, &b.OwnerReferences)
	shareList(&a.Finalizers, &b.Finalizers)
}

func shareSpec(a, b *corev1.PodSpec) {
	text(&a.NodeName, &b.NodeName)
	text(&a.ServiceAccountName, &b.ServiceAccountName)
	text(&a.DeprecatedServiceAccount, &b.DeprecatedServiceAccount)
	text(&a.SchedulerName, &b.SchedulerName)
	text(&a.PriorityClassName, &b.PriorityClassName)
	text(&a.DNSPolicy, &b.DNSPolicy)
	text(&a.RestartPolicy, &b.RestartPolicy)
	shareMap(&a.NodeSelector, &b.NodeSelector)
	sharePointer(&a.Affinity, &b.Affinity)
	shareList(&a.Tolerations, &b.Tolerations)
	sharePointer(&a.SecurityContext, &b.SecurityContext)
	shareList(&a.ImagePullSecrets, &b.ImagePullSecrets)
	shareList(&a.HostAliases, &b.HostAliases)
	sharePointer(&a.DNSConfig, &b.DNSConfig)
	shareList(&a.ReadinessGates, &b.ReadinessGates)
	shareList(&a.TopologySpreadConstraints, &b.TopologySpreadConstraints)
	shareList(&a.ResourceClaims, &b.ResourceClaims)
	shareMap(&a.Overhead, &b.Overhead)
	sharePointer(&a.Priority, &b.Priority)
	sharePointer(&a.PreemptionPolicy, &b.PreemptionPolicy)
	sharePointer(&a.EnableServiceLinks, &b.EnableServiceLinks)
	sharePointer(&a.TerminationGracePeriodSeconds, &b.TerminationGracePeriodSeconds)
	sharePointer(&a.ActiveDeadlineSeconds, &b.ActiveDeadlineSeconds)
	// The name of the token volume is drawn for each pod, so volumes and
	// containers are rarely equal as a whole.
	if !shareList(&a.Volumes, &b.Volumes) {
		shareEach(a.Volumes, b.Volumes, func(a, b *corev1.Volume) { share(&a.VolumeSource, &b.VolumeSource) })
	}
	if !shareList(&a.InitContainers, &b.InitContainers) {
		shareEach(a.InitContainers, b.InitContainers, shareContainer)
	}
	if !shareList(&a.Containers, &b.Containers) {
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
	shareList(&a.Command, &b.Command)
	shareList(&a.Args, &b.Args)
	shareList(&a.Ports, &b.Ports)
	shareList(&a.EnvFrom, &b.EnvFrom)
	shareList(&a.Env, &b.Env)
	share(&a.Resources, &b.Resources)
	shareList(&a.ResizePolicy, &b.ResizePolicy)
	shareList(&a.VolumeDevices, &b.VolumeDevices)
	sharePointer(&a.LivenessProbe, &b.LivenessProbe)
	sharePointer(&a.ReadinessProbe, &b.ReadinessProbe)
	sharePointer(&a.StartupProbe, &b.StartupProbe)
	sharePointer(&a.Lifecycle, &b.Lifecycle)
	sharePointer(&a.SecurityContext, &b.SecurityContext)
	sharePointer(&a.RestartPolicy, &b.RestartPolicy)
	if !shareList(&a.VolumeMounts, &b.VolumeMounts) {
		shareEach(a.VolumeMounts, b.VolumeMounts, func(a, b *corev1.VolumeMount) { text(&a.MountPath, &b.MountPath) })
	}
}

func shareStatus(a, b *corev1.PodStatus) {
	text(&a.Phase, &b.Phase)
	text(&a.QOSClass, &b.QOSClass)
	text(&a.HostIP, &b.HostIP)
	shareList(&a.HostIPs, &b.HostIPs)
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
	sharePointer(&a.Started, &b.Started)
}

package podcache

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxSamples is how many sample pods an Interner keeps.
const maxSamples = 4096

// Interner makes pods of one template share the memory of their equal parts: of 100,000 pods of a
// hundred ReplicaSets, each pod but the first hundred then holds little more than its name, addresses
// and times. What is read from a pod does not change. Shared parts must not be modified, as nothing in
// a cache may be. The zero value is ready for use.
type Interner struct {
	mu      sync.Mutex
	samples map[types.UID]*corev1.Pod
}

// Intern drops the managed fields of p and lets p share memory with earlier pods. It also makes p safe for
// concurrent readers: a quantity caches its text on the first call of String, so Intern calls Size, which
// formats all of them, before a reader gets p.
func (s *Interner) Intern(p *corev1.Pod) {
	p.ManagedFields = nil
	s.shareParts(p)
	_ = p.Size()
}

// shareParts shares equal parts with an earlier pod of the same controller, or of the same namespace
// for a pod without one. A pod that is being deleted is skipped, because it soon leaves the cache.
func (s *Interner) shareParts(p *corev1.Pod) {
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
		if s.samples == nil || len(s.samples) >= maxSamples {
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

// share sets *b to *a if the two are semantically equal, and reports whether they are.
func share[T any](a, b *T) bool {
	if !equality.Semantic.DeepEqual(*a, *b) {
		return false
	}
	*b = *a
	return true
}

// sharePointer, shareList and shareMap call share only if there is something to share: most fields are
// empty, and share uses reflection.
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

// shareEach calls each for the elements of two slices in pairs.
func shareEach[T any](a, b []T, each func(a, b *T)) {
	for i := range min(len(a), len(b)) {
		each(&a[i], &b[i])
	}
}

// shareText shares the bytes of equal strings.
func shareText[T ~string](a, b *T) {
	if *a == *b {
		*b = *a
	}
}

func shareMeta(a, b *metav1.ObjectMeta) {
	shareText(&a.GenerateName, &b.GenerateName)
	shareText(&a.Namespace, &b.Namespace)
	shareMap(&a.Labels, &b.Labels)
	shareMap(&a.Annotations, &b.Annotations)
	shareList(&a.OwnerReferences, &b.OwnerReferences)
	shareList(&a.Finalizers, &b.Finalizers)
}

func shareSpec(a, b *corev1.PodSpec) {
	shareText(&a.NodeName, &b.NodeName)
	shareText(&a.ServiceAccountName, &b.ServiceAccountName)
	shareText(&a.DeprecatedServiceAccount, &b.DeprecatedServiceAccount)
	shareText(&a.SchedulerName, &b.SchedulerName)
	shareText(&a.PriorityClassName, &b.PriorityClassName)
	shareText(&a.DNSPolicy, &b.DNSPolicy)
	shareText(&a.RestartPolicy, &b.RestartPolicy)
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
	// The name of the token volume is random for each pod, so volumes and containers are rarely equal as
	// a whole.
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
	shareText(&a.Name, &b.Name)
	shareText(&a.Image, &b.Image)
	shareText(&a.WorkingDir, &b.WorkingDir)
	shareText(&a.TerminationMessagePath, &b.TerminationMessagePath)
	shareText(&a.TerminationMessagePolicy, &b.TerminationMessagePolicy)
	shareText(&a.ImagePullPolicy, &b.ImagePullPolicy)
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
		shareEach(a.VolumeMounts, b.VolumeMounts, func(a, b *corev1.VolumeMount) { shareText(&a.MountPath, &b.MountPath) })
	}
}

func shareStatus(a, b *corev1.PodStatus) {
	shareText(&a.Phase, &b.Phase)
	shareText(&a.QOSClass, &b.QOSClass)
	shareText(&a.HostIP, &b.HostIP)
	shareList(&a.HostIPs, &b.HostIPs)
	shareEach(a.Conditions, b.Conditions, func(a, b *corev1.PodCondition) {
		shareText(&a.Type, &b.Type)
		shareText(&a.Status, &b.Status)
		shareText(&a.Reason, &b.Reason)
	})
	shareEach(a.InitContainerStatuses, b.InitContainerStatuses, shareContainerStatus)
	shareEach(a.ContainerStatuses, b.ContainerStatuses, shareContainerStatus)
}

func shareContainerStatus(a, b *corev1.ContainerStatus) {
	shareText(&a.Name, &b.Name)
	shareText(&a.Image, &b.Image)
	shareText(&a.ImageID, &b.ImageID)
	sharePointer(&a.Started, &b.Started)
}

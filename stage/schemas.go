package stage

import (
	"reflect"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// builtinKinds are kinds whose lists the API merges by key, as their Go types define.
var builtinKinds = map[string][]any{
	"v1": {
		&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{},
		&corev1.Namespace{}, &corev1.ServiceAccount{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
		&corev1.ReplicationController{}, &corev1.ResourceQuota{}, &corev1.LimitRange{}, &corev1.Event{}, &corev1.PodTemplate{},
	},
	"apps/v1":        {&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ControllerRevision{}},
	"batch/v1":       {&batchv1.Job{}, &batchv1.CronJob{}},
	"policy/v1":      {&policyv1.PodDisruptionBudget{}},
	"autoscaling/v2": {&autoscalingv2.HorizontalPodAutoscaler{}},
	"storage.k8s.io/v1": {
		&storagev1.StorageClass{}, &storagev1.VolumeAttachment{}, &storagev1.CSIDriver{}, &storagev1.CSINode{}, &storagev1.CSIStorageCapacity{},
	},
	"coordination.k8s.io/v1":       {&coordinationv1.Lease{}},
	"networking.k8s.io/v1":         {&networkingv1.Ingress{}, &networkingv1.IngressClass{}, &networkingv1.NetworkPolicy{}},
	"rbac.authorization.k8s.io/v1": {&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}},
	"discovery.k8s.io/v1":          {&discoveryv1.EndpointSlice{}},
	"scheduling.k8s.io/v1":         {&schedulingv1.PriorityClass{}},
	"certificates.k8s.io/v1":       {&certificatesv1.CertificateSigningRequest{}},
	"resource.k8s.io/v1": {
		&resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
	},
	"admissionregistration.k8s.io/v1": {
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	},
}

// strategicSchema returns the Go type whose tags define the strategic merge of a kind; nil if it is unknown.
func strategicSchema(k Kind) any {
	for _, example := range builtinKinds[k.APIVersion] {
		if reflect.TypeOf(example).Elem().Name() == k.Kind {
			return example
		}
	}
	return nil
}

// noStrategic reports whether a kind is definitely a custom resource, for which the API rejects strategic merge
// patches.
func noStrategic(k Kind) bool {
	group := k.group()
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") && strategicSchema(k) == nil
}

// GoType returns the Go type of a kind of Kubernetes, nil for all others.
func GoType(k Kind) reflect.Type {
	if example := strategicSchema(k); example != nil {
		return reflect.TypeOf(example).Elem()
	}
	return nil
}

// KindNames returns the names of Kubernetes' own kinds in a group and version.
func KindNames(apiVersion string) []string {
	var out []string
	for _, example := range builtinKinds[apiVersion] {
		out = append(out, reflect.TypeOf(example).Elem().Name())
	}
	return out
}

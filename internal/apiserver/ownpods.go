package apiserver

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// readPodsFrom makes the server's informer of pods read them from a client, instead of watching them over TLS from itself and
// decoding each of them once more. The informer has the pods to which tokens are bound, and those of namespaces whose pod security level changes.
//
// Upstream passes the factory of the server's informers to its source of tokens before anything else has asked it for pods, and a factory has one informer per
// type: the first.
func readPodsFrom(pods kubernetes.Interface, s *options.BuiltInAuthenticationOptions, d *handlers) error {
	client, err := kubernetes.NewForConfig(d.config("system:apiserver"))
	if err != nil {
		return err
	}
	s.ServiceAccounts.OptionalTokenGetter = func(f informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
		f.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return coreinformers.NewPodInformer(pods, metav1.NamespaceAll, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
		core := f.Core().V1()
		var nodes corelisters.NodeLister
		if utilfeature.DefaultFeatureGate.Enabled(features.ServiceAccountTokenNodeBindingValidation) {
			nodes = core.Nodes().Lister()
		}
		return serviceaccountcontroller.NewGetterFromClient(client, core.Secrets().Lister(), core.ServiceAccounts().Lister(), core.Pods().Lister(), nodes)
	}
	return nil
}

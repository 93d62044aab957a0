package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Unlimited lets the API server's own priority and fairness say who waits. A limit that
// the caller has set stays.
func Unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	if config.ContentType == "" {
		config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	}
	return config
}

// Consistent makes the first list show all that was written before it: a process that
// has just begun knows nothing of its predecessor's writes, and could not tell that a
// list from some server's cache is older than they are.
func Consistent(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}

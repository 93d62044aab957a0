package reconcile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Unlimited returns a copy of config without a client-side rate limit, so that the API server's priority
// and fairness decides who waits, and with protobuf. A limit or content type that is set stays.
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

// Consistent makes a list return all that was written before it. client-go's first list accepts any
// revision that the server has in its cache. A process that has just started does not know the writes
// of the process before it, so it could not detect that such a list is older than they are.
func Consistent(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}

package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/audit/policy"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/rehearse-k8s/rehearse/internal/nearest"
)

// checkSettings rejects invalid settings of the components. kube-apiserver itself checks RuntimeConfig and AdmissionPlugins.
func (o *Options) checkSettings() error {
	for _, gate := range o.FeatureGates {
		if err := checkGate(gate); err != nil {
			return err
		}
	}
	if o.ServiceCIDR != "" {
		if _, err := netip.ParsePrefix(o.ServiceCIDR); err != nil {
			return usage("--service-cidr %q: must be a range such as 10.96.0.0/16", o.ServiceCIDR)
		}
	}
	if (o.AuditPolicyFile == "") != (o.AuditLogFile == "") {
		return usage("--audit-policy and --audit-log must be given together: without a policy there are no events, and without a log they go nowhere")
	}
	if o.AuditPolicyFile != "" {
		if _, err := policy.LoadPolicyFromFile(o.AuditPolicyFile); err != nil {
			return usage("--audit-policy: %v", err)
		}
	}
	if o.SchedulerConfigFile != "" && len(o.Controllers) > 0 && !picked(o.Controllers, Scheduler) {
		return usage("--scheduler-config %s: --controllers does not run the scheduler", o.SchedulerConfigFile)
	}
	if o.NodeLeaseDuration > 0 && o.NodeLeaseDuration < time.Second {
		return usage("--node-lease-duration %s: must be at least 1s, or 0s for none", o.NodeLeaseDuration)
	}
	if o.HPASyncPeriod < 0 {
		return usage("--hpa-sync-period %s: must be positive", o.HPASyncPeriod)
	}
	return nil
}

// controllerManagerFlags are the settings of upstream's controllers, as flags of kube-controller-manager.
func (o *Options) controllerManagerFlags() (flags []string) {
	if o.HPASyncPeriod > 0 {
		flags = append(flags, "--horizontal-pod-autoscaler-sync-period="+o.HPASyncPeriod.String())
	}
	return flags
}

// checkGate rejects an unknown feature gate, and a value that is not a boolean.
func checkGate(gate string) error {
	name, value, _ := strings.Cut(gate, "=")
	if _, err := strconv.ParseBool(value); err != nil {
		return usage("--feature-gates %q: must be a name and a boolean, such as %s=true", gate, name)
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	if _, ok := known[featuregate.Feature(name)]; ok {
		return nil
	}
	names := make([]string, 0, len(known))
	for f := range maps.Keys(known) {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return usage("--feature-gates: unknown feature gate %q; nearest names: %s", name, strings.Join(nearest.Names(name, names, suggestions), ", "))
}

// Package karpenter runs Karpenter, with the provider for KWOK of its own repository, as a process against a cluster: nodes for
// waiting pods are created, simulated and removed, as docs/howto/autoscalers.md describes it. It has no code of its own. It is a
// module of its own, so that Karpenter reaches no user of rehearse; it compiles Karpenter with the versions of Kubernetes'
// libraries that rehearse uses, not with those that Karpenter has chosen.
package karpenter

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stage says how one kind of object goes on from one state to the next: which
// objects it takes (selector), how long they wait (delay), and what is written
// then (steps, or the older next). Stages are cluster-scoped.
//
// +kubebuilder:object:root=true
type Stage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   StageSpec   `json:"spec"`
	Status StageStatus `json:"status,omitempty"`
}

// StageList is a list of stages.
//
// +kubebuilder:object:root=true
type StageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Stage `json:"items"`
}

// StageSpec is the desired behaviour of a stage.
type StageSpec struct {
	// ResourceRef is the kind of the objects to which this stage applies.
	ResourceRef StageResourceRef `json:"resourceRef"`
	// Selector selects the objects. nil selects none, an empty one all.
	Selector *StageSelector `json:"selector,omitempty"`
	// Weight is the share of this stage if several match one object. If all weights are 0, the shares are
	// equal.
	Weight int `json:"weight,omitempty"`
	// WeightFrom reads the weight from the object and takes precedence over Weight.
	WeightFrom *ExpressionFrom `json:"weightFrom,omitempty"`
	// Delay is the time between the choice of the stage and its writes.
	Delay *StageDelay `json:"delay,omitempty"`
	// Next defines the writes. Deprecated since KWOK v0.8 in favour of Steps, and used only if Steps is
	// empty.
	Next *StageNext `json:"next,omitempty"`
	// ImmediateNextStage chooses the next stage from the answer to the write, without waiting for the watch.
	ImmediateNextStage bool `json:"immediateNextStage,omitempty"`
	// Steps defines the writes, in order.
	Steps []StageStep `json:"steps,omitempty"`
}

// StageResourceRef is a kind.
type StageResourceRef struct {
	// APIGroup is a group and version ("apps/v1"), despite its name; empty is "v1".
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind is the kind, for instance "Pod".
	Kind string `json:"kind"`
}

// StageSelector selects objects. All its parts must match.
type StageSelector struct {
	MatchLabels      map[string]string    `json:"matchLabels,omitempty"`
	MatchAnnotations map[string]string    `json:"matchAnnotations,omitempty"`
	MatchExpressions []SelectorExpression `json:"matchExpressions,omitempty"`
}

// SelectorExpression is one requirement on an object: a jq or a CEL expression. The flat form (key, operator,
// values) is the older form of a jq expression.
type SelectorExpression struct {
	JQ  *SelectorJQ    `json:"jq,omitempty"`
	CEL *ExpressionCEL `json:"cel,omitempty"`

	Key      string           `json:"key,omitempty"`
	Operator SelectorOperator `json:"operator,omitempty"`
	Values   []string         `json:"values,omitempty"`
}

// SelectorJQ compares the results of a jq program with values.
type SelectorJQ struct {
	// Key is a jq program that is run on the object.
	Key string `json:"key,omitempty"`
	// Operator is the relation between the results of Key and Values.
	Operator SelectorOperator `json:"operator,omitempty"`
	// Values must not be empty for In and NotIn, and must be empty for the other operators.
	Values []string `json:"values,omitempty"`
}

// SelectorOperator is a relation between results and values.
type SelectorOperator string

// The selector operators.
const (
	SelectorOpIn           SelectorOperator = "In"
	SelectorOpNotIn        SelectorOperator = "NotIn"
	SelectorOpExists       SelectorOperator = "Exists"
	SelectorOpDoesNotExist SelectorOperator = "DoesNotExist"
)

// ExpressionFrom reads a value from the object.
type ExpressionFrom struct {
	JQ  *ExpressionJQ  `json:"jq,omitempty"`
	CEL *ExpressionCEL `json:"cel,omitempty"`
	// ExpressionFrom is the older form of JQ.
	ExpressionFrom string `json:"expressionFrom,omitempty"`
}

// ExpressionJQ is a jq program.
type ExpressionJQ struct {
	Expression string `json:"expression,omitempty"`
}

// ExpressionCEL is a CEL expression; the object is the variable self.
type ExpressionCEL struct {
	Expression string `json:"expression,omitempty"`
}

// StageDelay is a delay, chosen at random between a duration and the jitter.
type StageDelay struct {
	// DurationMilliseconds is the minimal delay.
	DurationMilliseconds *int64 `json:"durationMilliseconds,omitempty"`
	// DurationFrom reads the minimal delay from the object: an RFC 3339 time or a Go duration.
	DurationFrom *ExpressionFrom `json:"durationFrom,omitempty"`
	// JitterDurationMilliseconds is the maximum of the whole delay, not an amount that is added to it.
	JitterDurationMilliseconds *int64 `json:"jitterDurationMilliseconds,omitempty"`
	// JitterDurationFrom reads the maximum from the object.
	JitterDurationFrom *ExpressionFrom `json:"jitterDurationFrom,omitempty"`
}

// StageNext is the older form of Steps.
type StageNext struct {
	Event      *StageEvent      `json:"event,omitempty"`
	Finalizers *StageFinalizers `json:"finalizers,omitempty"`
	Delete     bool             `json:"delete,omitempty"`
	Patches    []StagePatch     `json:"patches,omitempty"`

	// StatusTemplate is a patch of the status; it is not used if Patches are set.
	StatusTemplate string `json:"statusTemplate,omitempty"`
	// StatusSubresource is the subresource to which StatusTemplate is sent; nil is "status".
	StatusSubresource *string `json:"statusSubresource,omitempty"`
	// StatusPatchAs is the user as whom StatusTemplate is sent.
	StatusPatchAs *ImpersonationConfig `json:"statusPatchAs,omitempty"`
}

// StageStep is one step of a stage: an event, then finalizers, then a delete,
// then a patch, then an apply.
type StageStep struct {
	Event      *StageEvent      `json:"event,omitempty"`
	Finalizers *StageFinalizers `json:"finalizers,omitempty"`
	Delete     bool             `json:"delete,omitempty"`
	Patch      *StagePatch      `json:"patch,omitempty"`
	Apply      *StageApply      `json:"apply,omitempty"`
}

// StageEvent is a Kubernetes Event about the object.
type StageEvent struct {
	// Type is Normal or Warning.
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// StageFinalizers changes metadata.finalizers.
type StageFinalizers struct {
	Add    []FinalizerItem `json:"add,omitempty"`
	Remove []FinalizerItem `json:"remove,omitempty"`
	Empty  bool            `json:"empty,omitempty"`
}

// FinalizerItem is one finalizer.
type FinalizerItem struct {
	Value string `json:"value,omitempty"`
}

// StagePatch is a patch of the object.
type StagePatch struct {
	// Subresource is the subresource to patch; empty: the object itself.
	Subresource string `json:"subresource,omitempty"`
	// Root is the field under which the rendered template is placed.
	Root string `json:"root,omitempty"`
	// Template is a Go template that renders YAML or JSON.
	Template string `json:"template,omitempty"`
	// Type is the type of the patch. Default: strategic for pods and nodes, merge for all others.
	Type *StagePatchType `json:"type,omitempty"`
	// Impersonation is the user as whom the patch is sent.
	Impersonation *ImpersonationConfig `json:"impersonation,omitempty"`
}

// StagePatchType is the type of a patch.
type StagePatchType string

// The patch types; StageApplyTypeApply is for Apply only.
const (
	StagePatchTypeJSON      StagePatchType = "json"
	StagePatchTypeMerge     StagePatchType = "merge"
	StagePatchTypeStrategic StagePatchType = "strategic"
	StageApplyTypeApply     StagePatchType = "apply"
)

// StageApply renders a whole object, of any kind, and applies it.
type StageApply struct {
	Template      string               `json:"template,omitempty"`
	Subresource   string               `json:"subresource,omitempty"`
	Type          *StagePatchType      `json:"type,omitempty"`
	Impersonation *ImpersonationConfig `json:"impersonation,omitempty"`
}

// ImpersonationConfig is a user to impersonate.
type ImpersonationConfig struct {
	Username string `json:"username"`
}

// StageStatus is part of KWOK's definition; KWOK never writes it.
type StageStatus struct {
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one condition of a stage.
type Condition struct {
	Type               string          `json:"type"`
	Status             ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time     `json:"lastTransitionTime"`
	Reason             string          `json:"reason"`
	Message            string          `json:"message"`
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

const (
	readsEnvironment = "it reads the environment"
	createsSecrets   = "stages create no keys, certificates or password hashes; create a Secret and refer to it"
)

// unsupported maps the sprig functions that a template must not call to the reason: they read more than
// their arguments, or they create secrets from randomness that could not be replayed.
var unsupported = map[string]string{
	"env": readsEnvironment, "expandenv": readsEnvironment, "getHostByName": "it queries the network",
	"bcrypt": createsSecrets, "htpasswd": createsSecrets, "derivePassword": createsSecrets, "encryptAES": createsSecrets,
	"genPrivateKey": createsSecrets, "genCA": createsSecrets, "genCAWithKey": createsSecrets,
	"genSelfSignedCert": createsSecrets, "genSelfSignedCertWithKey": createsSecrets,
	"genSignedCert": createsSecrets, "genSignedCertWithKey": createsSecrets,
}

// healthyNode holds the conditions of a healthy node, with the reasons and messages of a kubelet
// (pkg/kubelet/nodestatus/setters.go) and of a cloud route controller.
var healthyNode = []corev1.NodeCondition{
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: "RouteController created a route"},
}

// functions are all a template may call. Only those whose name is in the text
// are made, because there are some 270.
func (s *session) functions(p *Program) template.FuncMap {
	out := template.FuncMap{tick: s.tick}
	for _, more := range []template.FuncMap{p.sprig, s.ownFunctions(p.of), s.chanceFunctions(), s.boundFunctions()} {
		for name, f := range more {
			if p.names(name) {
				out[name] = s.guarded(name, f)
			}
		}
	}
	return out
}

// ownFunctions are those that read the moment, and KWOK's own.
func (s *session) ownFunctions(of expr.Form) template.FuncMap {
	m := &s.Moment
	now := func() string { return m.Now.UTC().Format(time.RFC3339Nano) }
	zoned := func(layout string, date any, zone string) (string, error) {
		return inZone(layout, timeOf(date, m.Now), zone)
	}
	f := template.FuncMap{
		"Now":            now,
		"StartTime":      func() string { return m.Facts.StartTime().UTC().Format(time.RFC3339Nano) },
		"Version":        func() string { return m.Facts.Version() },
		"Quote":          quote,
		"YAML":           toYAML,
		"NodeConditions": nodeConditionValues,
		"TransitionTime": func(conditions any, conditionType, status string) string {
			return transitionTime(conditions, conditionType, status, now())
		},

		// sprig's, but for the decision's time and in UTC.
		"now":            func() time.Time { return m.Now.UTC() },
		"ago":            func(date any) string { return m.Now.Sub(timeOf(date, m.Now)).Round(time.Second).String() },
		"date":           func(layout string, date any) string { return timeOf(date, m.Now).UTC().Format(layout) },
		"htmlDate":       func(date any) string { return timeOf(date, m.Now).UTC().Format("2006-01-02") },
		"dateInZone":     zoned,
		"date_in_zone":   zoned,
		"htmlDateInZone": func(date any, zone string) (string, error) { return zoned("2006-01-02", date, zone) },
		"toDate":         func(layout, text string) time.Time { t, _ := time.ParseInLocation(layout, text, time.UTC); return t },
		"mustToDate":     func(layout, text string) (time.Time, error) { return time.ParseInLocation(layout, text, time.UTC) },
		"durationRound":  func(d any) string { return roughly(durationOf(d, m.Now)) },

		// sprig's give the order of Go's maps, which is random.
		"keys":   sortedKeys,
		"values": sortedValues,

		"NodeIPWith":  func(node string) (string, error) { return firstOf(m.Facts.NodeIPs(node)) },
		"NodeIPsWith": func(node string) ([]string, error) { return m.Facts.NodeIPs(node) },
		"PodIPsWith":  m.podIPs,
		"PodIPWith": func(node string, hostNetwork bool, uid, name, namespace string) (string, error) {
			return firstOf(m.podIPs(node, hostNetwork, uid, name, namespace))
		},
	}
	switch of {
	case expr.Pod:
		f["Kubelet"] = func(step string, object map[string]any) (string, error) {
			return kubelet.StatusAfter(step, object, kubelet.Moment{Now: m.Now, Addresses: m.Facts})
		}
		f["NodeIP"] = func() (string, error) { return firstOf(m.Facts.NodeIPs(m.Object.(*corev1.Pod).Spec.NodeName)) }
		f["PodIP"] = func() (string, error) {
			p := m.Object.(*corev1.Pod)
			return firstOf(m.podIPs(p.Spec.NodeName, p.Spec.HostNetwork, string(p.UID), p.Name, p.Namespace))
		}
	case expr.Node:
		f["NodeIP"] = func() (string, error) { return firstOf(m.Facts.NodeIPs(m.Object.GetName())) }
		f["NodeName"] = func() string { return m.Object.GetName() }
		f["NodePort"] = func() int { return m.Facts.NodePort() }
	}
	return f
}

// podIPs answers PodIPsWith; name and namespace are in KWOK's signature.
func (m *Moment) podIPs(node string, hostNetwork bool, uid, _, _ string) ([]string, error) {
	return kubelet.PodIPs(m.Facts, node, hostNetwork, types.UID(uid))
}

func firstOf(all []string, err error) (string, error) {
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

func quote(value any) (string, error) {
	if text, ok := value.(fmt.Stringer); ok {
		value = text.String()
	}
	if text, ok := value.(string); ok {
		if quotable(text) {
			return `"` + text + `"`, nil
		}
		data, err := json.Marshal(text)
		return string(data), err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	if len(data) > 0 && data[0] == '"' {
		return string(data), nil
	}
	data, err = json.Marshal(string(data))
	return string(data), err
}

// quotable reports whether JSON writes a text unchanged between quotes.
func quotable(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return false
		}
	}
	return true
}

// toYAML is KWOK's YAML function: a value as YAML; with levels, on lines of its own,
// indented by two blanks for each level.
func toYAML(value any, levels ...int) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(string(data), "\n")
	if len(levels) > 0 && levels[0] > 0 {
		text = strings.ReplaceAll("\n"+text, "\n", "\n"+strings.Repeat("  ", levels[0]))
	}
	return text, nil
}

// transitionTime is the lastTransitionTime of a condition that keeps its
// status, and now for one that changes it or is new.
func transitionTime(conditions any, conditionType, status, now string) string {
	list, _ := conditions.([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		if c["type"] != conditionType || c["status"] != status {
			continue
		}
		if at, ok := c["lastTransitionTime"].(string); ok {
			return at
		}
	}
	return now
}

func sortedKeys(dicts ...map[string]any) []string {
	out := []string{}
	for _, d := range dicts {
		out = append(out, slices.Sorted(maps.Keys(d))...)
	}
	return out
}

func sortedValues(d map[string]any) []any {
	out := []any{}
	for _, k := range sortedKeys(d) {
		out = append(out, d[k])
	}
	return out
}

// timeOf reads what sprig's date functions take.
func timeOf(date any, now time.Time) time.Time {
	switch date := date.(type) {
	case time.Time:
		return date
	case *time.Time:
		return *date
	case int64:
		return time.Unix(date, 0)
	case int:
		return time.Unix(int64(date), 0)
	case int32:
		return time.Unix(int64(date), 0)
	}
	return now
}

// durationOf reads what sprig's durationRound takes.
func durationOf(d any, now time.Time) time.Duration {
	switch d := d.(type) {
	case string:
		out, _ := time.ParseDuration(d)
		return out
	case int64:
		return time.Duration(d)
	case time.Duration:
		return d
	case time.Time:
		return now.Sub(d)
	}
	return 0
}

// roughly is a duration in its largest unit, as kubectl shows ages.
func roughly(d time.Duration) string {
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{
		{"y", 365 * 24 * time.Hour}, {"mo", 30 * 24 * time.Hour}, {"d", 24 * time.Hour},
		{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	} {
		if n := d.Abs() / unit.is; n > 0 && d.Abs() > unit.is {
			return fmt.Sprintf("%d%s", n, unit.name)
		}
	}
	return "0s"
}

func inZone(layout string, at time.Time, zone string) (string, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		location = time.UTC
	}
	return at.In(location).Format(layout), nil
}

// nodeConditionValues are the conditions of a healthy node, with a kubelet's
// words, as a template ranges over them.
func nodeConditionValues() []any {
	var out []any
	for _, c := range healthyNode {
		out = append(out, map[string]any{
			"type": string(c.Type), "status": string(c.Status), "reason": c.Reason, "message": c.Message,
		})
	}
	return out
}

package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Facts answers what a template asks and the object does not say. Asked twice
// within one Play it must answer the same.
type Facts interface {
	// NodeIPs are the addresses of a node, the main one first.
	NodeIPs(node string) ([]string, error)
	// PodIPs are the addresses of the pod with this UID on a node. A pod without
	// one is given one that no other pod in use has; it keeps it.
	PodIPs(uid types.UID, node string) ([]string, error)
	// NodePort is the port the nodes' kubelet endpoint is served at, 0 for none.
	NodePort() int
	// Version is the version simulated kubelets report.
	Version() string
	// StartTime is when the engine started.
	StartTime() time.Time
}

// moment is one rendering: what the template functions read.
type moment struct {
	now    time.Time
	facts  Facts
	object Object
}

// refused are sprig functions that read something else than their arguments.
var refused = map[string]string{
	"env": "it reads the environment", "expandenv": "it reads the environment",
	"getHostByName": "it asks the network",
	"randAlphaNum":  "it is random", "randAlpha": "it is random", "randAscii": "it is random", "randNumeric": "it is random",
	"randBytes": "it is random", "randInt": "it is random", "shuffle": "it is random", "uuidv4": "it is random",
	"genPrivateKey": "it is random", "genCA": "it is random", "genCAWithKey": "it is random",
	"genSelfSignedCert": "it is random", "genSelfSignedCertWithKey": "it is random",
	"genSignedCert": "it is random", "genSignedCertWithKey": "it is random",
	"bcrypt": "it is random", "htpasswd": "it is random", "encryptAES": "it is random",
	"durationRound": "it reads the clock",
	"toDate":        "it reads the machine's time zone", "mustToDate": "it reads the machine's time zone",
}

// parseTemplate parses a stage's template: Go's text/template with sprig's
// functions and KWOK's, less those that are no function of the object. One
// function is our own: TransitionTime.
func parseTemplate(text string, kind Kind) (*template.Template, error) {
	functions := sprig.TxtFuncMap()
	for name := range refused {
		delete(functions, name)
	}
	m := moment{}
	for name, f := range m.functions(kind) {
		functions[name] = f
	}
	t, err := template.New("template").Funcs(functions).Parse(text)
	if err == nil {
		return t, nil
	}
	for name, why := range refused {
		if strings.Contains(err.Error(), fmt.Sprintf("function %q not defined", name)) {
			return nil, fmt.Errorf("function %s may not be used: %s", name, why)
		}
	}
	return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
}

// render runs a template on an object and returns the JSON values it yields.
func (m moment) render(t *template.Template, kind Kind, o Object) (map[string]any, error) {
	data, err := templateData(o)
	if err != nil {
		return nil, err
	}
	t, err = t.Clone()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Funcs(m.functions(kind)).Execute(&out, data); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "template: "))
	}
	var values map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &values); err != nil {
		return nil, fmt.Errorf("the template does not render a YAML mapping: %w", err)
	}
	return values, nil
}

// templateData is the object as templates see it: its JSON, with numbers as
// they are written.
func templateData(o Object) (any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		return nil, err
	}
	return out, nil
}

// functions are those that read the moment, and KWOK's own.
func (m moment) functions(kind Kind) template.FuncMap {
	now := func() string { return m.now.UTC().Format(time.RFC3339Nano) }
	f := template.FuncMap{
		"Now":            now,
		"StartTime":      func() string { return m.facts.StartTime().UTC().Format(time.RFC3339Nano) },
		"Version":        func() string { return m.facts.Version() },
		"Quote":          quote,
		"YAML":           toYAML,
		"NodeConditions": nodeConditionValues,
		"TransitionTime": func(conditions any, conditionType, status string) string {
			return transitionTime(conditions, conditionType, status, now())
		},

		// sprig's, but for the decision's time and in UTC.
		"now":      func() time.Time { return m.now.UTC() },
		"ago":      func(date any) string { return m.now.Sub(timeOf(date, m.now)).Round(time.Second).String() },
		"date":     func(layout string, date any) string { return timeOf(date, m.now).UTC().Format(layout) },
		"htmlDate": func(date any) string { return timeOf(date, m.now).UTC().Format("2006-01-02") },
		"dateInZone": func(layout string, date any, zone string) (string, error) {
			return inZone(layout, timeOf(date, m.now), zone)
		},
		"date_in_zone": func(layout string, date any, zone string) (string, error) {
			return inZone(layout, timeOf(date, m.now), zone)
		},
		"htmlDateInZone": func(date any, zone string) (string, error) {
			return inZone("2006-01-02", timeOf(date, m.now), zone)
		},

		// sprig's give the order of Go's maps, which is random.
		"keys":   sortedKeys,
		"values": sortedValues,

		"NodeIPWith":  func(node string) (string, error) { return firstOf(m.facts.NodeIPs(node)) },
		"NodeIPsWith": func(node string) ([]string, error) { return m.facts.NodeIPs(node) },
	}
	switch kind {
	case KindPod:
		f["NodeIP"] = func() (string, error) { return firstOf(m.facts.NodeIPs(m.object.(*corev1.Pod).Spec.NodeName)) }
		f["PodIP"] = func() (string, error) {
			p := m.object.(*corev1.Pod)
			return firstOf(m.podIPs(p.Spec.NodeName, p.Spec.HostNetwork, string(p.UID), p.Name, p.Namespace))
		}
		f["PodIPsWith"] = m.podIPs
		f["PodIPWith"] = func(node string, hostNetwork bool, uid, name, namespace string) (string, error) {
			return firstOf(m.podIPs(node, hostNetwork, uid, name, namespace))
		}
	case KindNode:
		f["NodeIP"] = func() (string, error) { return firstOf(m.facts.NodeIPs(m.object.GetName())) }
		f["NodeName"] = func() string { return m.object.GetName() }
		f["NodePort"] = func() int { return m.facts.NodePort() }
	}
	return f
}

// podIPs answers PodIPsWith; name and namespace are in KWOK's signature.
func (m moment) podIPs(node string, hostNetwork bool, uid, _, _ string) ([]string, error) {
	if hostNetwork {
		return m.facts.NodeIPs(node)
	}
	return m.facts.PodIPs(types.UID(uid), node)
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

// toYAML is KWOK's YAML function: a value as YAML, indented by levels of two.
func toYAML(value any, levels ...int) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(string(data), "\n")
	if len(levels) > 0 && levels[0] > 0 {
		text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat("  ", levels[0]))
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

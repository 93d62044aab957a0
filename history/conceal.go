package history

import (
	"fmt"
	"regexp"
	"slices"
)

// Confidential reports whether the value at a path of an object, such as ".data.password" or
// ".spec.containers[0].env[1].value", must not be in a file or a message that is shared: the values
// of Secrets; and with private, the data of ConfigMaps, the values of environment variables, and
// commands.
func Confidential(resource, path string, private bool) bool {
	switch {
	case resource == "secrets":
		return secretPath.MatchString(path)
	case !private:
		return false
	case resource == "configmaps" && configPath.MatchString(path):
		return true
	}
	return environmentPath.MatchString(path) || commandPath.MatchString(path)
}

var (
	secretPath      = regexp.MustCompile(`^\.(data|stringData)\.`)
	configPath      = regexp.MustCompile(`^\.(data|binaryData)\.`)
	environmentPath = regexp.MustCompile(`\.env\[\d+\]\.value$`)
	commandPath     = regexp.MustCompile(`\.(command|args)\[\d+\]$`)
)

// Hidden replaces a confidential value.
const Hidden = "(hidden)"

func hidden(value any) string {
	text, _ := value.(string)
	return fmt.Sprintf("(%d characters)", len(text))
}

// Conceal returns a copy of an object without its confidential values. In commands it replaces only
// what looks like a secret.
func Conceal(o Object, object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	out, _ := conceal(o.Resource, "", object).(map[string]any)
	return out
}

func conceal(resource, path string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = conceal(resource, path+"."+k, inner)
		}
		return out
	case []any:
		if isCommand(path, v) {
			return concealList(v)
		}
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = conceal(resource, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		return out
	}
	if resource != "secrets" && Confidential(resource, path, true) { // the values of Secrets are concealed everywhere
		return hidden(value)
	}
	return value
}

func isCommand(path string, list []any) bool {
	return commandPath.MatchString(path+"[0]") && !slices.ContainsFunc(list, func(v any) bool {
		_, text := v.(string)
		return !text
	})
}

func concealList(list []any) []any {
	args := make([]string, len(list))
	for i, v := range list {
		args[i], _ = v.(string)
	}
	out := make([]any, len(list))
	for i, arg := range ConcealArguments(args) {
		out[i] = arg
	}
	return out
}

const secretName = `[\w.-]*(?:passw|passphrase|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credential|authorization|cookie|dsn)[\w.-]*`

var (
	secretFlag   = regexp.MustCompile(`(?i)^--?` + secretName + `$`)
	secretValue  = regexp.MustCompile(`(?i)(` + secretName + `["']?\s*[=:]\s*(?:bearer\s+|basic\s+)?)("[^"]*"|'[^']*'|[^\s"',;&]+)`)
	bearerValue  = regexp.MustCompile(`(?i)\b(bearer\s+|basic\s+)[\w.~+/=-]{8,}`)
	userInfo     = regexp.MustCompile(`([a-zA-Z][\w+.-]*://[^\s/@:]*:)[^\s/@]+@`)
	webToken     = regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`)
	nextArgument = regexp.MustCompile(`^[^-]`)
)

// ConcealArguments returns a copy of a program's arguments without what looks like a secret: values
// of options and variables whose names indicate one, passwords in URLs, bearer tokens.
func ConcealArguments(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if i > 0 && secretFlag.MatchString(args[i-1]) && nextArgument.MatchString(arg) {
			out[i] = Hidden
			continue
		}
		arg = secretValue.ReplaceAllString(arg, "${1}"+Hidden)
		arg = bearerValue.ReplaceAllString(arg, "${1}"+Hidden)
		arg = userInfo.ReplaceAllString(arg, "${1}"+Hidden+"@")
		out[i] = webToken.ReplaceAllString(arg, Hidden)
	}
	return out
}

package load

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Check is one condition on a JSON answer. Path is dotted; a number is an index, * means every item, "" the whole.
type Check struct {
	Path     string  `json:"path"`
	Equals   any     `json:"equals"`
	Contains *string `json:"contains"`
	Kind     string  `json:"kind"` // array, object, string, number or bool
	MinItems int     `json:"min_items"`
	NotEmpty bool    `json:"not_empty"`
}

var kinds = map[string]bool{"": true, "array": true, "object": true, "string": true, "number": true, "bool": true}

func (c Check) validate() error {
	if !kinds[c.Kind] {
		return fmt.Errorf("check %q: unknown kind %q", c.Path, c.Kind)
	}
	if c.Equals == nil && c.Contains == nil && c.Kind == "" && c.MinItems == 0 && !c.NotEmpty {
		return fmt.Errorf("check %q asks for nothing", c.Path)
	}
	return nil
}

// holds tells whether the document meets the check.
func (c Check) holds(document any) bool {
	if c.Path == "" {
		return c.meets(document)
	}
	return c.walk(document, strings.Split(c.Path, "."))
}

func (c Check) walk(value any, path []string) bool {
	if len(path) == 0 {
		return c.meets(value)
	}
	switch node := value.(type) {
	case map[string]any:
		child, ok := node[path[0]]
		return ok && c.walk(child, path[1:])
	case []any:
		if path[0] == "*" {
			for _, item := range node {
				if !c.walk(item, path[1:]) {
					return false
				}
			}
			return true
		}
		index, err := strconv.Atoi(path[0])
		return err == nil && index >= 0 && index < len(node) && c.walk(node[index], path[1:])
	default:
		return false
	}
}

func (c Check) meets(value any) bool {
	text, isText := value.(string)
	items, isArray := value.([]any)
	switch {
	case c.Kind != "" && kindOf(value) != c.Kind,
		c.Equals != nil && !reflect.DeepEqual(value, c.Equals),
		c.Contains != nil && !(isText && strings.Contains(text, *c.Contains)),
		c.MinItems > 0 && !(isArray && len(items) >= c.MinItems):
		return false
	}
	return !c.NotEmpty || !isEmpty(value)
}

func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	default:
		return "null"
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}

// valid tells whether a body meets all checks; without checks any body does.
func (e Expect) valid(body []byte) bool {
	if len(e.JSON) == 0 {
		return true
	}
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		return false
	}
	for _, check := range e.JSON {
		if !check.holds(document) {
			return false
		}
	}
	return true
}

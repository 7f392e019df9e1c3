// Package config reads what a service is told from outside: the address file in its working directory and the
// tunables in its environment. It holds no knowledge of any one service.
package config

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// DefaultPath is relative to the working directory, which the image sets.
const DefaultPath = "config.json"

// File is the content of the address file. A key that is absent, or whose value is no string, reads as "".
type File map[string]string

// Load reads the file at path. On an error the returned File is empty but usable: services start without their
// addresses and then fail where the address is needed.
func Load(path string) (File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("read configuration: %w", err)
	}
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return File{}, fmt.Errorf("parse configuration %s: %w", path, err)
	}
	file := File{}
	for key, value := range values {
		if text, ok := value.(string); ok {
			file[key] = text
		}
	}
	return file, nil
}

// Port is the value of key as a number, 0 when it is missing or no number.
func (f File) Port(key string) int {
	port, err := strconv.Atoi(f[key])
	if err != nil {
		return 0
	}
	return port
}

// Int reads an integer tunable; an unset or unreadable one has its default.
func Int(name string, unset int) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return unset
	}
	return value
}

// Float reads a decimal tunable; an unset or unreadable one has its default.
func Float(name string, unset float64) float64 {
	value, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil {
		return unset
	}
	return value
}

// Text reads a text tunable; an unset or empty one has its default.
func Text(name, unset string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return unset
}

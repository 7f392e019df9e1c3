// Command twin plays every API service of an application; the name it is called by says which.
package main

import (
	"twin/internal/hotel"
	"twin/internal/service"
)

func main() { service.Main(hotel.Commands()) }

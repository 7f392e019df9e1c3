// Pins the server that the mongo image is built from; the recipe copies this module and applies server.patch.
module images/mongo

go 1.24

require github.com/FerretDB/FerretDB v1.24.2

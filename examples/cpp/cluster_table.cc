// Declares two columns of a table as its clustering, and optimizes it.
//
//   cluster_table TABLE COLUMN,COLUMN

#include <thalweg/thalweg.h>

#include <iostream>
#include <sstream>

namespace {

arrow::Status Run(const std::string& name, const std::string& columns) {
  const thalweg::api::TableName table{name, {}};
  thalweg::api::Clustering clustering;
  std::istringstream names(columns);
  for (std::string column; std::getline(names, column, ',');) clustering.columns.push_back(column);

  ARROW_RETURN_NOT_OK(thalweg::api::SetClustering(table, clustering).status());
  ARROW_ASSIGN_OR_RAISE(const auto result, thalweg::api::Optimize(table));
  if (result.outcome == "nothing-to-do") {
    std::cout << "nothing to do: " << result.reason << "\n";
  } else {
    std::cout << result.rows << " rows in " << result.source_files << " files are now in "
              << result.output_files << " files; an equality opens " << result.depth_after
              << " of them instead of " << result.depth_before << "\n";
  }
  return arrow::Status::OK();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: cluster_table TABLE COLUMN,COLUMN\n";
    return 2;
  }
  const arrow::Status status = Run(argv[1], argv[2]);
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  return 0;
}

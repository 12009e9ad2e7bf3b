//! The report as text: rows of a label and a value, tables with numbers in columns.
use super::maps::ratio;
use super::report::LayoutReport;
use crate::text::Rows;
use std::fmt::{self, Display, Formatter};

fn percent(share: Option<f64>) -> Option<String> {
    share.map(|share| format!("{:.1} %", share * 100.0))
}

fn blocks(mean: Option<f64>) -> Option<String> {
    mean.map(|mean| format!("{mean:.0} blocks"))
}

impl Display for LayoutReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.counts(f)?;
        self.fragment_rows(f)?;
        self.map_rows(f)?;
        self.locality_rows(f)?;
        self.free_rows(f)?;
        if self.faults > 0 {
            Rows(f).row("Faults met", self.faults)?;
        }
        Ok(())
    }
}

impl LayoutReport {
    fn counts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        rows.row("Files", self.files)?;
        rows.row("Directories", self.directories)?;
        rows.row("Other inodes", self.others)?;
        rows.row("Data blocks", self.data_blocks)?;
        rows.row("Directory blocks", self.directory_blocks)?;
        rows.row("Map blocks", self.map_blocks)?;
        rows.some("Layout score", self.layout_score.map(|score| format!("{score:.4}")))
    }

    fn fragment_rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        rows.row("Fragments", self.fragments)?;
        rows.row("Fragmented files", self.fragmented_files)?;
        rows.some(
            "Fragments per file",
            ratio(self.fragments, self.mapped_files).map(|mean| format!("{mean:.2}")),
        )?;
        for class in &self.by_fragments {
            let label = match class.fragments_max {
                1 => "  in 1 piece".to_owned(),
                most => format!("  in {}-{most} pieces", most / 2 + 1),
            };
            rows.row(&label, format!("{:>9} files", class.files))?;
        }
        for class in &self.by_size {
            let score =
                class.layout_score.map_or_else(String::new, |score| format!(", score {score:.4}"));
            let value =
                format!("{:>9} files, {:>9} fragments{score}", class.files, class.fragments);
            rows.row(&format!("  up to {} blocks", class.blocks_max), value)?;
        }
        for file in &self.most_fragmented {
            let name = file.path.as_deref().unwrap_or_default();
            let value = format!("{} fragments, {} blocks", file.fragments, file.blocks);
            let value = match name {
                "" => value,
                name => format!("{value}  {}", name.escape_debug()),
            };
            rows.row(&format!("  inode {}", file.inode), value)?;
        }
        Ok(())
    }

    fn map_rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let maps = &self.maps;
        if maps.blocks == 0 {
            return Ok(());
        }
        let mut rows = Rows(f);
        let mean = maps
            .mean_run_blocks
            .map_or_else(String::new, |mean| format!(", {mean:.1} blocks each"));
        rows.row("Map blocks in runs", format!("{}{mean}", maps.runs))?;
        rows.row("Seeks to read them all", maps.seeks)?;
        let groups = maps.groups;
        rows.some(
            "In clusters",
            percent(maps.clustered)
                .map(|share| format!("{share} of those in {groups} groups with two or more")),
        )?;
        rows.some("Distance to their data", blocks(maps.mean_distance_blocks))
    }

    fn locality_rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        let locality = &self.locality;
        rows.row("Names", locality.names)?;
        let same = ratio(locality.same_group, locality.names);
        rows.some("In directory's group", percent(same))?;
        rows.some("Distance to directory", blocks(locality.mean_distance_blocks))?;
        rows.some("In disk order", percent(locality.in_disk_order))
    }

    fn free_rows(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        let free = &self.free;
        let value =
            format!("{} blocks in {} runs, longest {}", free.blocks, free.runs, free.longest_run);
        rows.row("Free", value)?;
        for class in &self.free_by_length {
            let value = format!("{:>9} runs, {:>10} blocks", class.runs, class.blocks);
            rows.row(&format!("  up to {} blocks", class.blocks_max), value)?;
        }
        Ok(())
    }
}
